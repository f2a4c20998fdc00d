"""Upstream's manifests as we change them, and what of them is ours to install."""

from __future__ import annotations

import subprocess
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import operators
from infra.clusters.discovery import ClusterContents, contents_of
from infra.config import ConfigError
from infra.guard import admission, policy_rules
from infra.objects.job_kinds import PYTORCHJOB
from infra.objects.labels import RUN, STACK
from infra.training_operator import patches
from infra.training_operator.plan import Plan, plan
from infra.upstream import vendored
from tests.unit.infra.samples import OVERLAY, stack, upstreams


@pytest.fixture
def objects() -> list[dict[str, Any]]:
    return patches.patched(OVERLAY, "dev", "kubeflow")


def one(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = (each for each in objects if each["kind"] == kind)
    return found


def test_the_crd_comes_first_and_alone(objects: list[dict[str, Any]]) -> None:
    assert objects[0]["metadata"]["name"] == PYTORCHJOB.crd
    assert [each["kind"] for each in objects].count(patches.CRD_KIND) == 1


IN_UPSTREAM: list[dict[str, Any]] = [
    *OVERLAY,
    {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "training-operator", "namespace": "kubeflow"},
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "training-operator"},
        "subjects": [{"kind": "ServiceAccount", "name": "training-operator", "namespace": "kubeflow"}],
    },
]


def namespaces_in(value: Any) -> set[str]:
    """Every namespace that anything below `value` names."""
    if isinstance(value, list):
        return {name for each in value for name in namespaces_in(each)}
    if not isinstance(value, dict):
        return set()
    named = {value["namespace"]} if isinstance(value.get("namespace"), str) else set()
    return named.union(*(namespaces_in(each) for each in value.values()))


def test_everything_of_the_operator_moves_with_its_namespace() -> None:
    assert namespaces_in(IN_UPSTREAM) == {"kubeflow"}
    objects = patches.patched(IN_UPSTREAM, "dev", "operators")
    assert namespaces_in(objects) == {"operators"}
    assert one(objects, "ClusterRoleBinding")["subjects"][0]["namespace"] == "operators"
    (hook,) = one(objects, "ValidatingWebhookConfiguration")["webhooks"]
    assert hook["clientConfig"]["service"]["namespace"] == "operators"
    placed = {each["kind"] for each in objects if "namespace" in each["metadata"]}
    assert placed == {"ConfigMap", "Deployment", "Secret", "Service", "ServiceAccount"}


def test_its_namespace_is_made_where_it_is_missing_and_no_other_one_for_it() -> None:
    known = stack(operator={"namespace": "operators"}, cluster={"namespace": "team"})
    assert plan(known, ClusterContents()).namespaces == ("operators", "team")
    assert plan(known, ClusterContents(namespaces=frozenset({"operators"}))).namespaces == ("team",)
    others = plan(known, ClusterContents(crd=True, operator=True))
    assert others.namespaces == ("team",), "somebody else's operator is where it is"


@pytest.fixture
def init_container(objects: list[dict[str, Any]]) -> dict[str, Any]:
    text = one(objects, "ConfigMap")["data"][patches.INIT_TEMPLATE]
    filled = text.replace("{{.MasterAddr}}", "job-master-0").replace("{{.InitContainerImage}}", "busybox")
    (container,) = yaml.safe_load(filled)
    return dict(container)


def test_a_guarded_namespace_lets_in_the_container_that_the_operator_adds(
    init_container: dict[str, Any],
) -> None:
    pod = {"spec": {"initContainers": [{**init_container, "image": patches.INIT_IMAGE}], "containers": []}}
    made = {"kind": "Pod", "metadata": {"name": "worker"}, **pod}
    assert policy_rules.violations([made], admission.allowed(stack())) == []


def test_the_init_container_is_a_list_the_operator_can_read(init_container: dict[str, Any]) -> None:
    assert init_container["image"] == "busybox"
    assert init_container["securityContext"]["runAsNonRoot"]
    (variable,) = init_container["env"]
    assert variable["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.labels['{RUN}']"


UNKNOWN, REFUSED, LATE = (
    "nc: bad address 'job-master-0'",
    "nc: can't connect (10.0.0.1): Connection refused",
    "nc: timed out",
)


@pytest.mark.parametrize(
    ("run", "answers", "asked"),
    [
        ("mnist-01", [UNKNOWN, REFUSED, LATE, ""], ["23456"] * 4),
        ("", [UNKNOWN, UNKNOWN, REFUSED], ["1"] * 3),
        ("", [LATE], ["1"]),
        ("", [""], ["1"]),
    ],
)
def test_it_waits_for_the_port_of_our_jobs_and_for_the_name_of_others(
    init_container: dict[str, Any], tmp_path: Path, run: str, answers: list[str], asked: list[str]
) -> None:
    """Another job's rank 0 may listen on any port. Played here: what busybox's nc says, one answer a try."""
    for number, said in enumerate(answers, start=1):
        (tmp_path / f"answer{number}").write_text(said)
    play(tmp_path, "sleep", "exit 0")
    play(
        tmp_path,
        "nc",
        'echo "$4" >> asked; said=$(cat "answer$(wc -l < asked)"); echo "$said" >&2; [ -z "$said" ]',
    )
    done = execute(init_container, tmp_path, run)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "asked").read_text().split() == asked
    waits = [said for said in dict.fromkeys(answers) if said and (run or "bad address" in said)]
    assert done.stdout.splitlines() == waits, "each reason is told once"


@pytest.mark.parametrize("run", ["mnist-01", ""])
def test_it_gives_up_and_says_why(init_container: dict[str, Any], tmp_path: Path, run: str) -> None:
    play(tmp_path, "sleep", "exit 0")
    play(tmp_path, "seq", "echo 1 2 3")  # of 600 tries
    play(tmp_path, "nc", f'echo "{UNKNOWN}"; exit 1')
    done = execute(init_container, tmp_path, run)
    assert done.returncode == 1
    assert UNKNOWN in done.stdout


def play(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def execute(container: dict[str, Any], folder: Path, run: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "RUN": run}
    return subprocess.run(container["command"], cwd=folder, env=environment, capture_output=True, text=True)


def test_a_changed_template_starts_the_operator_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    def annotations() -> dict[str, str]:
        objects = patches.patched(OVERLAY, "dev", "kubeflow")
        return dict(one(objects, "Deployment")["spec"]["template"]["metadata"]["annotations"])

    before = annotations()
    assert before == annotations()
    monkeypatch.setattr(patches, "INIT_CONTAINER", "another")
    assert annotations() != before


def labelled(name: str, owner: str | None = None) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {STACK: owner} if owner else None}}


def marked_dev(live: dict[str, Any]) -> bool:
    return bool((live["metadata"].get("labels") or {}).get(STACK) == "dev")


def test_what_another_stack_made_is_foreign() -> None:
    found = contents_of(
        marked_dev, [labelled("kubeflow", "gpu"), labelled("mine", "dev")], [labelled("crd")], [], []
    )
    assert found.namespaces == {"kubeflow"}
    assert found.crd
    assert not found.operator


def test_devices_of_all_nodes_count() -> None:
    offered: list[dict[str, Any]] = [
        {"allocatable": {"nvidia.com/gpu": "2", "cpu": "4", "hugepages-2Mi": "64Mi"}},
        {"allocatable": {"nvidia.com/gpu": "1", "amd.com/gpu": "1"}},
        {},
    ]
    nodes = [{"metadata": {"name": f"n{n}"}, "spec": {}, "status": each} for n, each in enumerate(offered)]
    assert dict(contents_of(marked_dev, [], [], [], nodes).offered or {}) == {
        "nvidia.com/gpu": Decimal(3),
        "amd.com/gpu": Decimal(1),
        "hugepages-2Mi": Decimal(64 * 2**20),
    }


ALL = ClusterContents(namespaces=frozenset({"kubeflow"}), crd=True, operator=True)
NO_NAMESPACE = ClusterContents(crd=True, operator=True)


@pytest.mark.parametrize(
    ("operator", "found", "expected"),
    [
        ({"install": "auto"}, ALL, Plan(False, False, ())),
        ({"api": "v2"}, ALL, Plan(False, False, ())),
        ({}, ClusterContents(), Plan(True, True, ("kubeflow",))),
        ({"install": "never", "namespace": "another"}, NO_NAMESPACE, Plan(False, False, ("kubeflow",))),
    ],
    ids=["all is there", "of Trainer, too", "all is missing", "never, but the job's namespace"],
)
def test_what_is_missing_is_installed(
    operator: dict[str, Any], found: ClusterContents, expected: Plan
) -> None:
    assert plan(stack(operator=operator), found) == expected


@pytest.mark.parametrize(
    ("install", "found"), [("always", ClusterContents(crd=True)), ("never", ClusterContents())]
)
def test_what_cannot_be_done_is_refused(install: str, found: ClusterContents) -> None:
    with pytest.raises(ConfigError, match=r"(?s)operator\.install.*fix: write `install: auto`"):
        plan(stack(operator={"install": install}), found)


@pytest.mark.parametrize("crd", [True, False])
@pytest.mark.parametrize("operator", [True, False])
def test_a_review_shows_what_is_registered_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, crd: bool, operator: bool
) -> None:
    monkeypatch.setattr(vendored, "objects", upstreams)
    kinds = {each["kind"] for each in operators.manifests(stack(), Plan(crd, operator, ()))}
    assert (patches.CRD_KIND in kinds) is crd
    assert ("Deployment" in kinds) is operator


GANG: dict[str, Any] = {"job": {"name": "x", "runPolicy": {"schedulingPolicy": {"minAvailable": 2}}}}


@pytest.mark.parametrize("install", ["auto", "never"])
def test_a_gang_that_nobody_would_start_together_is_refused(install: str) -> None:
    known = stack(operator={"install": install}, **GANG)
    with pytest.raises(ConfigError, match=r"(?s)job\.runPolicy\.schedulingPolicy.*would ignore"):
        plan(known, ClusterContents(crd=True, operator=install == "never"))


def test_a_gang_is_for_an_operator_with_a_scheduler() -> None:
    known = stack(operator={"install": "never"}, **GANG)
    plan(known, ClusterContents(crd=True, operator=True, gang_scheduler=True))
    plan(known, ClusterContents(problem="does not answer"))


@pytest.mark.parametrize(
    ("words", "has"),
    [
        (["--gang-scheduler-name=volcano"], True),
        (["--gang-scheduler-name="], False),
        (["--zap"], False),
        (None, False),
    ],
)
@pytest.mark.parametrize("place", ["command", "args"])
def test_an_operators_flags_tell_of_its_gang_scheduler(
    words: list[str] | None, has: bool, place: str
) -> None:
    container = {"name": "training-operator", place: words}
    operator = {**labelled("operator"), "spec": {"template": {"spec": {"containers": [container]}}}}
    assert contents_of(marked_dev, [], [], [operator], []).gang_scheduler is has

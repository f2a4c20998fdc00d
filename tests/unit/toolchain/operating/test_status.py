"""`make status` tells healthy, not healthy and unknown apart."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from infra import agreed
from infra.cluster_kinds import ClusterKind
from infra.objects import labels
from toolchain.machine import engine
from toolchain.machine.engine import Engine
from toolchain.machine.preflight import GIB
from toolchain.operating import (
    api_server,
    environment,
    leftovers,
    live_objects,
    program_calls,
    quick_drift,
    state,
    status,
    user_backend,
    volume_space,
)
from toolchain.operating.state import Access
from toolchain.operating.status import Finding, Health, Part
from toolchain.operating.volume_space import Space
from toolchain.paths import ROOT
from toolchain.steps import SetupError

OWNER = "0123456789abcdef"


def live(kind: str, name: str, owner: str = OWNER, **more: Any) -> dict[str, Any]:
    mark = {labels.OWNER: owner} if owner else {}
    return {"kind": kind, "metadata": {"name": name, "labels": mark, **more.pop("metadata", {})}, **more}


def condition(*names: str) -> dict[str, Any]:
    return {"conditions": [{"type": name, "status": "True"} for name in names]}


def healthy() -> list[dict[str, Any]]:
    return [
        live("Namespace", "kubeflow"),
        live("Deployment", "training-operator", spec={"replicas": 1}, status={"availableReplicas": 1}),
        live("PersistentVolume", "models", status={"phase": "Bound"}),
        live("PersistentVolumeClaim", "models", status={"phase": "Bound"}),
        live("PyTorchJob", "job", status=condition("Created", "Running", "Succeeded")),
    ]


def changed(kind: str, **more: Any) -> list[dict[str, Any]]:
    return [{**each, **more} if each["kind"] == kind else each for each in healthy()]


def test_a_healthy_stack_shows_its_owner() -> None:
    findings = status.inspect_objects(healthy())
    assert status.overall(findings) is Health.HEALTHY
    assert findings[-1].said == OWNER


OTHER = "f" * 16


@pytest.mark.parametrize(
    ("in_state", "carried", "said", "health"),
    [
        (OWNER, [OWNER], OWNER, Health.HEALTHY),
        (None, [OWNER], OWNER, Health.HEALTHY),
        (OWNER, [], f"{OWNER}; no object carries this id yet", Health.HEALTHY),
        (OWNER, [""], f"{OWNER}; no object carries this id yet", Health.HEALTHY),
        (None, [], "no id yet: `make up` gives one", Health.NOT),
        (
            *(OWNER, [OTHER]),
            f"several stacks of this name have objects in the cluster, with owner ids {OWNER}, {OTHER}; "
            f"this stack has id {OWNER}",
            Health.NOT,
        ),
        (
            None,
            [OTHER, OWNER],
            f"several stacks of this name have objects in the cluster, with owner ids {OWNER}, {OTHER}",
            Health.NOT,
        ),
    ],
)
def test_the_owner_is_told_from_the_state_and_the_objects(
    in_state: str | None, carried: list[str], said: str, health: Health
) -> None:
    objects = [live("Namespace", f"n{place}", owner) for place, owner in enumerate(carried)]
    owner = status.inspect_objects(objects, owner=in_state)[-1]
    assert (owner.what, owner.said, owner.health) == (Part.OWNER, said, health)


def test_a_stack_that_was_refused_before_its_first_object_shows_its_owner(
    told: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    held = {"resources": [{"type": agreed.OWNER, "outputs": {"owner": OWNER}}]}
    monkeypatch.setattr(state, "deployment", lambda stack: held)
    told["objects"] = []
    assert status.inspect_stack("dev")[-1].said.startswith(OWNER)


@pytest.mark.parametrize("theirs", [False, True], ids=["a damaged state", "the user's own backend"])
def test_an_id_that_nobody_could_ask_for_is_unknown(
    told: dict[str, Any], monkeypatch: pytest.MonkeyPatch, theirs: bool
) -> None:
    def torn(stack: str) -> dict[str, Any]:
        raise SetupError(f"the state of stack {stack} is damaged")

    monkeypatch.setattr(state, "deployment", torn)
    monkeypatch.setattr(user_backend, "backend", lambda: "s3://bucket" if theirs else None)
    told["objects"] = []
    owner = status.inspect_stack("dev")[-1]
    assert (owner.what, owner.health) == (Part.OWNER, Health.UNKNOWN)
    assert ("your own backend" if theirs else "is damaged") in owner.said


UNHEALTHY: dict[str, list[dict[str, Any]]] = {
    "operator": changed("Deployment", status={}),
    "volume": changed("PersistentVolume", status={"phase": "Released"}),
    "claim": changed("PersistentVolumeClaim", status={"phase": "Pending"}),
    "terminating": changed("PersistentVolumeClaim", metadata={"name": "models", "deletionTimestamp": "now"}),
    "failed": changed("PyTorchJob", status=condition("Created", "Failed")),
    "no condition": changed("PyTorchJob", status={}),
    "no job": [each for each in healthy() if each["kind"] != "PyTorchJob"],
    "two owners": [*healthy(), live("PersistentVolume", "other", "f" * 16, status={"phase": "Bound"})],
    "no owner": [{**each, "metadata": {**each["metadata"], "labels": {}}} for each in healthy()],
    "nothing": [],
}


@pytest.mark.parametrize("objects", UNHEALTHY.values(), ids=UNHEALTHY)
def test_whatever_is_wrong_is_not_healthy(objects: list[dict[str, Any]]) -> None:
    assert status.overall(status.inspect_objects(objects)) is Health.NOT


def reported(percentage: int | None, left_s: int | None) -> dict[str, Any]:
    """A TrainJob's status with the last report of its program; what is None is unknown."""
    told = {"progressPercentage": percentage, "estimatedRemainingSeconds": left_s}
    return {"trainerStatus": {name: value for name, value in told.items() if value is not None}}


LEFT = {"namespace": "kubeflow", "job": "job", "run": "job-1", "jobStatus": "Succeeded", agreed.TTL: 5.0}


@pytest.mark.parametrize(
    ("theirs", "leaves", "run", "said", "health"),
    [
        (
            False,
            True,
            LEFT,
            "PyTorchJob/kubeflow/job has finished and was deleted; its run is job-1",
            Health.HEALTHY,
        ),
        (False, True, {**LEFT, agreed.TTL: None}, "no job with this stack's mark: run `make up`", Health.NOT),
        (
            True,
            True,
            LEFT,
            "no job with this stack's mark: a finished job may have been deleted; ",
            Health.UNKNOWN,
        ),
        (True, False, LEFT, "no job with this stack's mark: run `make up`", Health.NOT),
    ],
    ids=["left", "stayed", "not asked", "stays"],
)
def test_a_job_that_has_left_is_no_fault(
    told: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    theirs: bool,
    leaves: bool,
    run: dict[str, Any],
    said: str,
    health: Health,
) -> None:
    held = {"resources": [{"type": agreed.RUN, "outputs": run}]}
    monkeypatch.setattr(state, "deployment", lambda stack: held)
    monkeypatch.setattr(user_backend, "backend", lambda: "s3://bucket" if theirs else None)
    told["jobs leave"], told["objects"] = leaves, [each for each in healthy() if each["kind"] != "PyTorchJob"]
    (job,) = [each for each in status.inspect_stack("dev") if each.what is Part.JOB]
    assert job.said.startswith(said)
    assert job.health is health


ACTIVE = {"jobsStatus": [{"name": "node", "active": 1}]}


@pytest.mark.parametrize(
    ("found", "said", "health"),
    [
        ({}, "no condition yet", Health.HEALTHY),
        (ACTIVE, "Running", Health.HEALTHY),
        (condition("Suspended"), "Suspended", Health.HEALTHY),
        (condition("Complete"), "Succeeded", Health.HEALTHY),
        (condition("Failed"), "Failed", Health.NOT),
        ({**ACTIVE, **reported(45, 72)}, "Running, 45 % done, 0:01:12 left", Health.HEALTHY),
        ({**ACTIVE, **reported(45, None)}, "Running, 45 % done", Health.HEALTHY),
        ({**ACTIVE, **reported(None, 90061)}, "Running, 1 day, 1:01:01 left", Health.HEALTHY),
        ({**condition("Suspended"), **reported(45, 72)}, "Suspended, 45 % done", Health.HEALTHY),
        ({**condition("Complete"), **reported(100, 0)}, "Succeeded, 100 % done", Health.HEALTHY),
        ({**condition("Failed"), **reported(45, 72)}, "Failed, 45 % done", Health.NOT),
    ],
)
def test_a_trainjob_is_told_of_in_the_words_of_a_pytorchjob(
    found: dict[str, Any], said: str, health: Health
) -> None:
    others = [each for each in healthy() if each["kind"] != "PyTorchJob"]
    spec = {"suspend": said.startswith("Suspended")}
    findings = status.inspect_objects([*others, live("TrainJob", "job", spec=spec, status=found)])
    (job,) = [each for each in findings if each.what is Part.JOB]
    assert (job.said.endswith(f"/job {said}"), job.health) == (True, health), job.said


def test_known_to_be_wrong_weighs_more_than_unknown() -> None:
    fine, wrong, unknown = (Finding(Part.JOB, each, "") for each in Health)
    assert status.overall([fine, unknown]) is Health.UNKNOWN
    assert status.overall([fine, unknown, wrong]) is Health.NOT


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the parts answer, to be changed by a test."""
    answers: dict[str, Any] = {
        "engine": Engine("docker", ours=True),
        "kind": ClusterKind.KIND,
        "nodes": ["one"],
        "state": "running",
        "access": Access("kubeconfig", "a-context"),
        "problem": None,
        "objects": healthy(),
        "claim": ("models", False),
        "space": None,
        "waiting": ["the stack file is as applied"],
        "deviations": ([], []),
        "jobs leave": False,
    }
    monkeypatch.setattr(environment, "load", dict)
    monkeypatch.setattr(environment, "for_stack", lambda found, stack: {"PATH": ""})
    monkeypatch.setattr(environment, "access", lambda stack: answers["access"])
    monkeypatch.setattr(engine, "find", lambda: answers["engine"])
    monkeypatch.setattr(Engine, "output", lambda self, *words: answers["state"])
    monkeypatch.setattr(leftovers, "nodes", lambda engine, cluster: answers["nodes"])
    monkeypatch.setattr(api_server, "problem", lambda variables, access: answers["problem"])

    def told(stack: str) -> SimpleNamespace:
        claim, may_wait = answers["claim"] or (None, False)
        return SimpleNamespace(
            kind=answers["kind"],
            cluster="trainstack-dev",
            namespace="kubeflow",
            claim=claim,
            claim_may_wait=may_wait,
            is_named=False,
            wants_trainer=False,
            jobs_leave=answers["jobs leave"],
        )

    monkeypatch.setattr(environment, "cluster_access", told)
    monkeypatch.setattr(live_objects, "recent_warnings", lambda *_: [])
    monkeypatch.setattr(volume_space, "of", lambda stack: answers["space"])
    monkeypatch.setattr(quick_drift, "of_file", lambda stack: _or_raise(answers["waiting"]))
    monkeypatch.setattr(quick_drift, "of_objects", lambda *_: _or_raise(answers["deviations"]))
    nothing = subprocess.CompletedProcess[str]([], 0, "", "")
    monkeypatch.setattr(live_objects, "kubectl", lambda *_: nothing)
    monkeypatch.setattr(status, "_objects", lambda *_: _or_raise(answers["objects"]))
    return answers


@pytest.mark.parametrize("kind", [each for each in ClusterKind if each is not ClusterKind.KIND])
def test_a_cluster_without_nodes_of_ours_is_asked_by_its_api_server_alone(
    told: dict[str, Any], kind: ClusterKind
) -> None:
    """make status took MicroK8s for a cluster of kind, found none of its containers, and said that it is not there."""
    told |= {"kind": kind, "engine": None, "nodes": []}
    first, *_ = found = status.inspect_stack("dev")
    assert first == Finding(Part.API_SERVER, Health.HEALTHY, "answers")
    assert Part.JOB in [each.what for each in found]


def test_another_cluster_than_the_named_one_is_told_and_not_judged(
    told: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(variables: Any, stack: str) -> None:
        raise SetupError("another cluster")

    monkeypatch.setattr(program_calls, "ensure_named_cluster", refuse)
    *_, last = status.inspect_stack("dev")
    assert last == Finding(Part.CLUSTER, Health.UNKNOWN, "another cluster")


CLAIM = ("get", "persistentvolumeclaims", "theirs", "--namespace", "kubeflow")


def without_claim() -> list[dict[str, Any]]:
    return [each for each in healthy() if each["kind"] != "PersistentVolumeClaim"]


@pytest.mark.parametrize(
    ("answer", "expected", "said"),
    [
        (live("PersistentVolumeClaim", "theirs", "f" * 16, status={"phase": "Bound"}), 0, "theirs Bound"),
        (live("PersistentVolumeClaim", "theirs", "", status={"phase": "Lost"}), 1, "theirs Lost"),
        (live("PersistentVolumeClaim", "theirs", "", status={"phase": "Pending"}), 1, "theirs Pending"),
        (
            live(
                "PersistentVolumeClaim",
                "theirs",
                metadata={"deletionTimestamp": "now"},
                status={"phase": "Bound"},
            ),
            1,
            "theirs Terminating",
        ),
        (None, 1, "PersistentVolumeClaim/kubeflow/theirs is missing"),
        ("Error from server (Forbidden)", 2, "Forbidden"),
    ],
    ids=["bound", "lost", "pending", "terminating", "missing", "unknown"],
)
def test_a_claim_that_somebody_else_made_is_looked_up_by_its_name(
    told: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: Any,
    expected: int,
    said: str,
) -> None:
    def kubectl(_variables: Any, _access: Any, *arguments: str) -> subprocess.CompletedProcess[str]:
        assert arguments[: len(CLAIM)] == CLAIM
        refused = answer if isinstance(answer, str) else ""
        found = json.dumps(answer) if isinstance(answer, dict) else ""
        return subprocess.CompletedProcess([], int(bool(refused)), found, refused)

    told["objects"] = without_claim()
    told["claim"] = ("theirs", False)
    monkeypatch.setattr(live_objects, "kubectl", kubectl)
    assert status.status("dev") == expected
    assert said in capsys.readouterr().out


def test_a_claim_whose_name_the_stack_file_does_not_tell_is_unknown(told: dict[str, Any]) -> None:
    told["claim"] = None
    assert status.status("dev") == 2


@pytest.mark.parametrize(
    ("phase", "may_wait", "expected"),
    [("Pending", True, 0), ("Pending", False, 1), ("Lost", True, 1), ("Bound", True, 0)],
)
def test_a_claim_of_a_class_may_wait_for_the_first_pod(
    told: dict[str, Any], phase: str, may_wait: bool, expected: int
) -> None:
    told["claim"] = ("models", may_wait)
    told["objects"] = changed("PersistentVolumeClaim", status={"phase": phase})
    assert status.status("dev") == expected
    told["objects"] += [live("PersistentVolumeClaim", "data", status={"phase": "Pending"})]
    assert status.status("dev") == 1, "no other claim may"


def _or_raise(answer: Any) -> Any:
    if isinstance(answer, Exception):
        raise answer
    return answer


@pytest.mark.parametrize(
    ("part", "answer", "expected", "said"),
    [
        ("objects", healthy(), 0, OWNER),
        ("engine", None, 1, "no container engine answers"),
        ("nodes", [], 1, "does not exist"),
        ("state", "exited", 1, "exited"),
        ("problem", "connection refused", 2, "connection refused"),
        ("objects", SetupError("a time-out", "wait"), 2, "a time-out"),
        ("objects", ValueError("not foreseen"), 2, "not foreseen"),
        ("objects", KeyError("items"), 2, "items"),
        ("objects", [], 1, "no job"),
        (
            "waiting",
            ["stack file: job.lr: 1 -> 2, waits for `make up`"],
            0,
            "drift      ok       stack file: job.lr",
        ),
        ("waiting", SetupError("no stack file"), 2, "drift      unknown  no stack file (see docs/"),
        (
            "deviations",
            (["PyTorchJob/job is missing"], []),
            1,
            "drift      not ok   PyTorchJob/job is missing (see docs/",
        ),
        ("deviations", ([], ["cannot read it"]), 2, "drift      unknown  cannot read it (see docs/"),
        ("deviations", SetupError("torn"), 2, "drift      unknown  torn (see docs/"),
        ("space", Space(Path("models"), 100 * GIB, 10 * GIB), 0, "10.0 of 100.0 GiB are free on the disk of"),
        ("space", Space(Path("models"), 100 * GIB, 10 * GIB - 1), 1, "disk-full.md"),
    ],
)
def test_text_json_and_exit_status_say_how_the_stack_is_and_name_the_page_of_every_problem(
    told: dict[str, Any], capsys: pytest.CaptureFixture[str], part: str, answer: Any, expected: int, said: str
) -> None:
    told[part] = answer
    assert status.status("dev") == expected
    text = capsys.readouterr().out
    assert said in text
    assert status.status("dev", as_json=True) == expected
    found = json.loads(capsys.readouterr().out)
    assert found["health"] == {0: "ok", 1: "not ok", 2: "unknown"}[expected]
    for each, line in zip(found["findings"], text.splitlines(), strict=True):
        assert (each["runbook"] is None) == (each["health"] == "ok")
        assert (each["runbook"] or "") in line
        assert each["what"] in line


@pytest.mark.parametrize("part", Part)
def test_every_part_has_a_page_to_open(part: Part) -> None:
    page = status.RUNBOOKS[part]
    assert page.startswith("docs/runbooks/")
    assert (ROOT / page).is_file()
    assert Finding(part, Health.HEALTHY, "").runbook is None
    assert Finding(part, Health.NOT, "").runbook == Finding(part, Health.UNKNOWN, "").runbook == page


def test_warnings_of_the_stacks_objects_are_shown_and_are_no_fault(
    told: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[Any] = []

    def said(_variables: Any, _access: Any, namespace: str, names: set[str]) -> list[str]:
        seen.append((namespace, names))
        return ["1 min ago: Pod/job-worker-0 FailedScheduling: 0/1 nodes are available"]

    monkeypatch.setattr(live_objects, "recent_warnings", said)
    assert status.status("dev") == 0
    assert "event      ok       1 min ago: Pod/job-worker-0" in capsys.readouterr().out
    assert seen == [("kubeflow", {"kubeflow", "training-operator", "models", "job"})]

"""Key `job.pod`: what it may not say, and what has moved into it."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from infra import paths
from infra.config import ConfigError
from infra.config.operator import OperatorApi
from infra.config.pod_template import MOVED, OURS
from infra.job.run_id import run_id
from infra.objects.labels import OF_JOB
from infra.objects.manifest import Manifest
from infra.stack_plan import ensure_allowed
from tests.unit.infra.job.test_manifest import built
from tests.unit.infra.samples import IMAGE, JOB, job_context, shown, stack

GIVEN: dict[str, Any] = {
    "priorityClass": "high",
    "imagePullSecrets": ["registry"],
    "shmSize": "1Gi",
    "nccl": {
        "socketInterface": "eth0",
        "debug": "INFO",
        "disableInfiniband": True,
        "disablePeerToPeer": False,
    },
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "nvidia.com/gpu"}],
    "runtimeClass": "nvidia",
    "spread": False,
}
LISTS = ("containers", "volumes")
MOUNT = {"name": "shm", "mountPath": "/dev/shm"}
MEMORY = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}
"""A value of each key as release 0.1 took it."""


def refused(**job: Any) -> str:
    with pytest.raises(ConfigError) as error:
        stack(job={**JOB, **job})
    return str(error.value)


def in_container(**fields: Any) -> dict[str, Any]:
    """A pod that says this of the trainer's container."""
    return {"spec": {"containers": [{"name": "pytorch", **fields}]}}


def lines(said: str) -> dict[str, Any]:
    """The job's keys that a refusal tells to write."""
    (text,) = re.findall(r"write `(pod: .*)`", said)
    return dict(yaml.safe_load(text))


def pods(job: Manifest) -> list[dict[str, Any]]:
    return [each["template"]["spec"] for each in job["spec"]["pytorchReplicaSpecs"].values()]


@pytest.mark.parametrize("key", MOVED)
def test_a_key_that_has_moved_is_refused_with_the_lines_to_write_and_leaves_the_run(key: str) -> None:
    said = refused(**{key: GIVEN[key]})
    assert f"trainstack:job.{key} = " in said
    assert f"remove {key}, and write" in said
    (before,), (after,) = stack(job=JOB).jobs, stack(job={**JOB, **lines(said)}).jobs
    assert run_id(after, job_context()) == run_id(before, job_context())


@pytest.mark.parametrize("several", [1, 2], ids=["one node", "two nodes"])
def test_what_has_moved_says_of_a_pod_what_it_said_before(several: int) -> None:
    """All keys at once, beside a `pod` that is there already."""
    said = refused(**GIVEN, pod={"spec": {"hostNetwork": True}})
    moved = pods(built({**JOB, **lines(said)}, nodes=several))
    for now, plain in zip(moved, pods(built(nodes=several)), strict=True):
        env = [("NCCL_SOCKET_IFNAME", "eth0"), ("NCCL_DEBUG", "INFO"), ("NCCL_IB_DISABLE", "1")]
        (container,), (ours,) = now["containers"], plain["containers"]
        assert container["env"] == [*ours["env"], *({"name": name, "value": value} for name, value in env)]
        assert container["volumeMounts"] == [*ours["volumeMounts"], MOUNT]
        assert now["volumes"] == [*plain["volumes"], MEMORY]
        assert {name: now[name] for name in now if name not in LISTS} == {
            **{name: plain[name] for name in plain if name not in (*LISTS, "topologySpreadConstraints")},
            "priorityClassName": "high",
            "imagePullSecrets": [{"name": "registry"}],
            "nodeSelector": {"disk": "fast"},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "runtimeClassName": "nvidia",
            "hostNetwork": True,
        }


@pytest.mark.parametrize(
    ("key", "value", "place"),
    [
        ("volumes", [{"name": "x", "emptyDir": {}}], {"spec": {"volumes": [{"name": "x", "emptyDir": {}}]}}),
        ("hostNetwork", True, {"spec": {"hostNetwork": True}}),
        ("workingDir", "/srv", in_container(workingDir="/srv")),
    ],
)
def test_a_field_of_pods_is_refused_with_its_place(key: str, value: Any, place: dict[str, Any]) -> None:
    assert lines(refused(**{key: value})) == {"pod": place}


def test_a_word_that_is_no_key_gets_no_far_fetched_hint() -> None:
    assert "did you mean" not in refused(sidecars=[])


def test_a_key_that_said_nothing_is_only_to_be_removed() -> None:
    assert "fix: remove spread" in refused(spread=True)


@pytest.mark.parametrize(
    ("key", "value"), [("tolerations", 3), ("nccl", {"unknown": 1}), ("nccl", []), ("tolerations", ["x"])]
)
@pytest.mark.parametrize("pod", [{}, None, 3, []])
def test_a_moved_key_with_a_bad_value_is_refused_too(key: str, value: Any, pod: Any) -> None:
    assert f"job.{key} = {value}" in refused(**{key: value, "pod": pod})


@pytest.mark.parametrize(
    "metadata", [None, {}, {"labels": None}, {"$patch": "replace", "labels": {"a": "b"}}]
)
@pytest.mark.parametrize("api", OperatorApi)
def test_the_labels_by_which_pods_are_found_stay(metadata: Any, api: OperatorApi) -> None:
    found = stack(operator={"api": api}, job={**JOB, "pod": {"metadata": metadata}})
    templates = [each for each in templates_in(shown(found)) if JOB["name"] in str(each)]
    assert templates
    for each in templates:
        assert each["metadata"]["labels"].items() >= {OF_JOB: JOB["name"]}.items()


def templates_in(value: Any) -> list[dict[str, Any]]:
    """The pod templates anywhere in a manifest."""
    if isinstance(value, list):
        return [found for each in value for found in templates_in(each)]
    if not isinstance(value, dict):
        return []
    own = [value] if "containers" in value.get("spec", {}) else []
    return own + [found for each in value.values() for found in templates_in(each)]


def of_ours(part: Any, path: str = "") -> list[tuple[str, str]]:
    """Each path of OURS with the key that says it, as a refusal names it."""
    if isinstance(part, dict):
        inner = [
            of_ours(each, f"{path}.{name}" if path else name) for name, each in part.items() if name != "name"
        ]
    elif isinstance(part, list):
        inner = [of_ours(each, f"{path}[{each['name']}]") for each in part]
    else:
        return [(path, part)]
    return [each for found in inner for each in found]


def patch(path: str, value: Any) -> dict[str, Any]:
    """A part of a pod template that has `value` at `path`, as `of_ours` names it."""
    head, _, rest = path.partition(".")
    if path.endswith(("nvidia.com/gpu",)) and head == "nvidia":
        head, rest = path, ""
    inner: Any = patch(rest, value) if rest else value
    name, bracket, entry = head.partition("[")
    return {name: [{"name": entry.rstrip("]"), **(inner if rest else {})}]} if bracket else {name: inner}


@pytest.mark.parametrize(("path", "key"), of_ours(OURS))
@pytest.mark.parametrize("value", ["7", None], ids=["another", "removed"])
def test_what_another_key_says_is_refused(path: str, key: str, value: str | None) -> None:
    others: dict[str, Any] = {"runAsUser": 7, "activeDeadlineSeconds": 7, "readOnlyRootFilesystem": True}
    others |= {"command": ["x"], "args": ["x"]}
    said = refused(pod=patch(path, value and others.get(path.rpartition(".")[2], value)))
    assert f"job.pod.{path} = " in said
    assert f"{key} sets this one" in said


@pytest.mark.parametrize(
    "pod",
    [
        {"spec": {"$patch": "replace", "hostNetwork": True}},
        {"spec": {"containers": [{"$patch": "replace"}, {"name": "other", "image": "other"}]}},
        in_container(**{"$patch": "delete"}),
        {"spec": {"volumes": [{"name": "models", "emptyDir": {}}]}},
        {"spec": {"volumes": [{"$patch": "replace"}]}},
    ],
    ids=["the spec", "all containers", "the container", "another volume", "all volumes"],
)
def test_nothing_of_ours_can_be_patched_away(pod: dict[str, Any]) -> None:
    assert "remove it from pod" in refused(pod=pod)


ENV = {"name": "NCCL_DEBUG", "value": "INFO"}


@pytest.mark.parametrize(
    ("pod", "counts"),
    [
        (in_container(env=[{"name": "X", "value": "1"}]), True),
        (in_container(workingDir="/opt"), True),
        ({"spec": {"initContainers": [{"name": "fetch", "image": "fetch:1"}]}}, True),
        (in_container(env=[ENV]), False),
        (in_container(resources={"limits": {"amd.com/gpu": "1"}}), False),
        ({"spec": {"hostNetwork": True}}, False),
        ({"metadata": {"labels": {"a": "b"}}}, False),
    ],
)
def test_the_run_depends_on_what_is_trained_alone(pod: dict[str, Any], counts: bool) -> None:
    (before,), (after,) = stack(job=JOB).jobs, stack(job={**JOB, "pod": pod}).jobs
    assert (run_id(after, job_context()) != run_id(before, job_context())) is counts


def of_the_page() -> list[dict[str, Any]]:
    """The keys of a job that each block of docs/pods.md shows, and the pod of docs/own-project.md."""
    text = "".join((DOCS / f"{page}.md").read_text() for page in ("pods", "own-project"))
    return [job for job in map(yaml.safe_load, BLOCK.findall(text)) if job.keys() & {"pod", "resources"}]


DOCS = paths.ROOT / "docs"
BLOCK = re.compile(r"```yaml\n(.*?)```", re.DOTALL)


def name_of_the_block(job: dict[str, Any]) -> str:
    """What it sets, as the id of a test."""
    return ", ".join(job["pod"]["spec"] if "pod" in job else job["resources"])


@pytest.mark.parametrize("api", OperatorApi)
@pytest.mark.parametrize("job", of_the_page(), ids=name_of_the_block)
def test_what_the_page_shows_is_taken_and_breaks_no_policy(job: dict[str, Any], api: OperatorApi) -> None:
    found = stack(
        cluster={"kind": "existing", "podSecurity": "privileged"},
        image={"reference": IMAGE},
        operator={"api": api},
        job={**JOB, **job},
    )
    ensure_allowed(found, shown(found))


def test_limits_of_a_container_beside_are_asked_for_where_they_stand() -> None:
    found = stack(job={**JOB, "pod": {"spec": {"containers": [{"name": "beside", "image": IMAGE}]}}})
    with pytest.raises(ConfigError, match=r"container beside has no cpu limit(?s:.*)`job\.pod`"):
        ensure_allowed(found, shown(found))

"""Every pod of ours that runs the jobs' image can pull it, and gets to the jobs' nodes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra import paths
from infra.config import Stack
from infra.guard.rule_scopes import pod_specs
from infra.job import helper_pods
from infra.job.trainjob import jobs_of
from infra.run import reader_pod
from infra.run.reader_pod import MountedClaim
from infra.shared_folder import probe
from tests.unit.infra.recorder import Recorder, run_program
from tests.unit.infra.samples import IMAGE, shown, stack
from tests.unit.infra.test_program import configured, recorder

__all__ = ["recorder"]
GPU, SPOT = {"key": "nvidia.com/gpu", "operator": "Exists"}, {"key": "spot", "operator": "Exists"}
OF_A = {"tolerations": [GPU], "imagePullSecrets": [{"name": "team"}]}
OF_B = {"tolerations": [GPU, SPOT], "imagePullSecrets": [{"name": "team"}, {"name": "registry"}]}
JOBS: list[dict[str, Any]] = [{"name": "a", "pod": {"spec": OF_A}}, {"name": "b", "pod": {"spec": OF_B}}]
OF_ALL = OF_B
# Where an object with a pod's containers is written down, and what runs in it.
MAKERS = {
    "infra/config/pod_template.py": "nothing: what `job.pod` says is merged over a pod of infra/job/pod.py",
    "infra/job/pod.py": "the jobs' image",
    "infra/job/trainjob.py": "the jobs' image",
    "infra/run/reader_pod.py": "the jobs' image",
    "storage/directory.py": "the jobs' image",
    "infra/job/manifest.py": "a pod of infra/job/pod.py with one variable more",
    "infra/training_operator/webhook.py": "nothing: it is only asked about",
}


def reached(**sections: Any) -> Stack:
    config = {"cluster": {"kind": "existing"}, "image": {"reference": IMAGE}, "jobs": JOBS}
    return stack("gpu", **config | sections)


def named(pod: dict[str, Any]) -> dict[str, Any]:
    return {name: pod.get(name) for name in helper_pods.FIELDS}


def applied(known: Stack) -> dict[str, list[dict[str, Any]]]:
    """`Kind/name` -> what each of its pods' specs says of FIELDS."""
    found = {
        f"{each['kind']}/{each['metadata']['name']}": [
            named(pod) for made in (each, *jobs_of(each)) for pod in pod_specs(made)
        ]
        for each in shown(known)
    }
    return {name: pods for name, pods in found.items() if pods}


def test_the_jobs_and_what_prepares_their_folder() -> None:
    prepares = f"Job/{reached().claim}-prepare"
    assert applied(reached()) == {prepares: [OF_ALL], "PyTorchJob/a": [OF_A] * 2, "PyTorchJob/b": [OF_B] * 2}


def test_the_jobs_of_the_other_api() -> None:
    pods = applied(reached(operator={"api": "v2"}))
    assert (pods["TrainingRuntime/a"], pods["TrainingRuntime/b"]) == ([OF_A], [OF_B])


def test_what_reads_the_volume_and_looks_at_it(recorder: Recorder) -> None:
    configured(jobs=JOBS, storage={"shared": True})
    run_program()
    mounting = {args.typ.rpartition(":")[2] for args in recorder.registered if "mountPath" in args.inputs}
    assert mounting == {"SharedFolder"}, "models of a kind cluster are on this machine"
    (look,) = [args.inputs for args in recorder.registered if "mountPath" in args.inputs]
    assert [named(pod) for pod in of_a_claim(look)] == [OF_ALL] * 3


def test_what_brings_a_model_from_elsewhere(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stack, "models_are_here", False)
    configured(jobs=JOBS)
    run_program()
    found = [args.inputs for args in recorder.registered if "mountPath" in args.inputs]
    assert sorted((each.get("job", "copy"), each["run"].split("-")[0]) for each in found) == [
        ("a", "a"),
        ("b", "b"),
        ("copy", "a"),
        ("copy", "b"),
    ]
    for each in found:
        wanted = OF_A if each["run"].startswith("a-") else OF_B
        assert [named(pod) for pod in of_a_claim(each)] == [wanted] * 3


def of_a_claim(props: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The specs of all pods that dynamic resources with these properties make."""
    volume = MountedClaim.from_props(props)
    yield reader_pod.manifest("reads", volume)["spec"]
    yield probe.reader("looks", volume, "node", "file")["spec"]
    yield probe.writer("writes", volume, "node", "file")["spec"]


def test_a_job_without_them_leaves_the_fields_out() -> None:
    pods = applied(reached(jobs=[{"name": "a"}, {"name": "b"}]))
    assert {tuple(pod.values()) for found in pods.values() for pod in found} == {(None, None)}


def test_no_pod_is_made_anywhere_else() -> None:
    """A new maker of pods belongs into MAKERS, and its pods into a test above."""
    found = {
        str(path.relative_to(paths.ROOT))
        for package in ("infra", "storage", "toolchain")
        for path in (paths.ROOT / package).rglob("*.py")
        if writes_containers(path)
    }
    assert found == set(MAKERS)


def writes_containers(path: Path) -> bool:
    """Whether a mapping with the key `containers` stands in the source."""
    keys = [
        key
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Dict)
        for key in node.keys
    ]
    return any(isinstance(key, ast.Constant) and key.value == "containers" for key in keys)

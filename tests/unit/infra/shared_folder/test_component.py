"""When it is looked at, what a stack registers for it, and how it is said that a folder is not shared."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException
from pulumi.dynamic import DiffResult

from infra.clusters.node_folders import Placement
from infra.shared_folder import component
from infra.shared_folder.component import SharedFolderError, SharedFolderProvider
from infra.shared_folder.probe import NotSharedError
from tests.unit.infra.recorder import REFERENCE, Recorder, run_program
from tests.unit.infra.samples import JOB
from tests.unit.infra.test_program import configured, recorder

__all__ = ["recorder"]
FOLDER = "pulumi-python:dynamic/trainstack:SharedFolder"
PROPS: dict[str, Any] = {
    **{"kubeconfigPath": "/k", "context": None, "namespace": "kubeflow", "image": "trainer@sha256:0"},
    **{"claim": "models", "mountPath": "/opt/mnist/models", "pod": {}, "placements": [asdict(Placement())]},
    **{"file": "stacks/Pulumi.x.yaml", "path": "/srv/models", "instance": "one", "runs": ["mnist-1"]},
    "nodes": ["a", "b"],
}


def diff(**changes: Any) -> DiffResult:
    return SharedFolderProvider().diff("x", PROPS, PROPS | changes)


@pytest.mark.parametrize(
    "change",
    [
        {"runs": ["mnist-2"]},
        {"nodes": ["a", "b", "c"]},
        {"nodes": ["c"]},
        {"path": "/elsewhere"},
        {"claim": "other"},
        {"instance": "two"},
        {"placements": [asdict(Placement({"disk": "shared"}))]},
    ],
    ids=str,
)
def test_it_looks_once_more_before_a_run_and_for_a_new_node(change: dict[str, Any]) -> None:
    found = diff(**change)
    assert (found.changes, found.replaces) == (True, [])


@pytest.mark.parametrize("change", [{}, {"nodes": ["a"]}, {"nodes": []}], ids=str)
def test_it_does_not_otherwise(change: dict[str, Any]) -> None:
    assert not diff(**change).changes


def played(monkeypatch: pytest.MonkeyPatch, outcome: list[str] | Exception) -> None:
    class Played:
        def __init__(self, *_: Any) -> None: ...

        def run(self) -> list[str]:
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

    monkeypatch.setattr(component, "Probe", Played)


def test_the_state_holds_the_nodes_that_were_looked_at_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    played(monkeypatch, ["b", "c"])
    for made in (
        SharedFolderProvider().create(PROPS).outs,
        SharedFolderProvider().update("x", PROPS, PROPS | {"runs": ["mnist-2"]}).outs,
    ):
        assert made is not None
        assert made["nodes"] == ["b", "c"]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (NotSharedError("node b has another folder than node a"), "another folder than node a"),
        (ApiException(403, "Forbidden"), "the cluster refuses the check: 403 Forbidden"),
    ],
)
def test_a_folder_that_is_not_shared_is_refused_with_the_way_out(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    played(monkeypatch, error)
    with pytest.raises(SharedFolderError) as refused:
        SharedFolderProvider().create(PROPS)
    for part in (
        "stacks/Pulumi.x.yaml: trainstack:storage.shared",
        "/srv/models",
        said,
        "No job was",
        "fix: ",
    ):
        assert part in str(refused.value)


def registered(recorder: Recorder, **storage: Any) -> list[str]:
    configured(job=JOB, storage=storage)
    run_program()
    return [args.typ for args in recorder.registered]


def test_a_job_waits_until_the_folder_has_been_looked_at(recorder: Recorder) -> None:
    types = registered(recorder, shared=True)
    assert types.index(FOLDER) < types.index("kubernetes:kubeflow.org/v1:PyTorchJob")
    (look,) = recorder.of(FOLDER)
    (job,) = [args for args in recorder.registered if args.typ.endswith(":PyTorchJob")]
    assert look.inputs["runs"] == [job.inputs["metadata"]["labels"]["trainstack/run"]]
    assert look.inputs["image"] == REFERENCE
    assert look.inputs["nodes"] == []


@pytest.mark.parametrize(
    "storage",
    [{}, {"shared": False}, {"kind": "nfs", "nfsServer": "nfs.example", "nfsPath": "/exports"}],
    ids=str,
)
def test_nothing_is_looked_at_where_nothing_is_declared(recorder: Recorder, storage: dict[str, Any]) -> None:
    assert FOLDER not in registered(recorder, **storage)

"""The last look after `pulumi up`: what is half gone is found, and what is as it should be is not."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from infra import inspection, paths
from infra.objects.labels import OF_JOB, OF_JOBSET, RUN, STACK
from tests.unit.infra.samples import stack

STACK_ = stack()
VOLUME = "trainstack-dev-models"
DATA = "trainstack-dev-data"


def made(kind: str, name: str, phase: str = "Bound", **metadata: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name, **metadata}, "status": {"phase": phase}}


def settled() -> list[dict[str, Any]]:
    pairs = [made(f"PersistentVolume{end}", name) for name in (VOLUME, DATA) for end in ("", "Claim")]
    job = made("PyTorchJob", "pytorch-simple", "", labels={RUN: "pytorch-simple-1"})
    pod = made("Pod", "pytorch-simple-master-0", "Succeeded", labels={OF_JOB: "pytorch-simple"})
    return [*pairs, job, pod]


def leaving(place: int) -> list[dict[str, Any]]:
    """The objects, of which this one is on its way out."""
    found = settled()
    found[place]["metadata"] |= {"deletionTimestamp": "now", "finalizers": ["kubernetes.io/pvc-protection"]}
    return found


def test_a_settled_stack_has_no_findings() -> None:
    assert list(inspection.cluster_findings(STACK_, settled())) == []


@pytest.mark.parametrize("place", range(len(settled())))
def test_whatever_is_on_its_way_out_is_found(place: int) -> None:
    found = leaving(place)
    (finding,) = inspection.cluster_findings(STACK_, found)
    title = f"{found[place]['kind']} {found[place]['metadata']['name']}"
    assert finding == f"{title} is Terminating; its finalizers: kubernetes.io/pvc-protection"


@pytest.mark.parametrize("place", range(len(settled()) - 1))
def test_whatever_is_missing_is_found(place: int) -> None:
    found = settled()
    removed = found.pop(place)
    title = f"{removed['kind']} {removed['metadata']['name']}"
    assert list(inspection.cluster_findings(STACK_, found)) == [f"{title} is missing"]


@pytest.mark.parametrize("phase", ["Released", "Pending", "Failed", "Available", "Lost"])
@pytest.mark.parametrize("place", range(4))
def test_only_bound_volumes_and_claims_will_do(place: int, phase: str) -> None:
    found = settled()
    found[place]["status"]["phase"] = phase
    (finding,) = inspection.cluster_findings(STACK_, found)
    assert f"is {phase}: see {inspection.RUNBOOK}" in finding
    assert (paths.ROOT / inspection.RUNBOOK).exists()


def test_a_pending_pod_is_found() -> None:
    found = settled()
    found[-1]["status"]["phase"] = "Pending"
    assert list(inspection.cluster_findings(STACK_, found)) == ["Pod pytorch-simple-master-0 is Pending"]


@pytest.mark.parametrize(
    ("each", "ours"),
    [
        (made("PersistentVolume", "old", labels={STACK: "dev"}), True),
        (made("PersistentVolume", VOLUME), True),
        (made("PersistentVolume", "others", labels={STACK: "gpu"}), False),
        (made("PersistentVolumeClaim", "others"), False),
        (made("PyTorchJob", "pytorch-simple"), True),
        (made("PyTorchJob", "others"), False),
        (made("Pod", "trainstack-reader-1"), True),
        (made("Pod", "x", labels={OF_JOB: "others"}), False),
        (made("Pod", "x", labels={OF_JOB: "pytorch-simple", OF_JOBSET: "of-a-notebook"}), False),
        (made("Pod", "x", labels={OF_JOB: "pytorch-simple", OF_JOBSET: "pytorch-simple"}), True),
    ],
)
def test_whose_an_object_is(each: dict[str, Any], ours: bool) -> None:
    assert inspection.is_ours(each, STACK_) is ours


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(paths, "models", lambda stack: tmp_path)
    run = tmp_path / "runs" / "pytorch-simple-1"
    run.mkdir(parents=True)
    (run / "mnist_cnn.pt").write_bytes(b"model")
    (tmp_path / "mnist_cnn.pt").write_bytes(b"model")
    return tmp_path


def outputs(folder: Path, status: str = "Succeeded") -> dict[str, Any]:
    named = {"jobStatus": status, "modelPath": str(folder / "mnist_cnn.pt")}
    return {"jobs": {"pytorch-simple": named}}


def test_the_model_of_the_run_is_as_it_should_be(models: Path) -> None:
    assert list(inspection.model_findings(outputs(models), STACK_, settled())) == []


def test_a_missing_model_is_found(models: Path) -> None:
    (models / "mnist_cnn.pt").unlink()
    missing, left = inspection.model_findings(outputs(models), STACK_, settled())
    assert "is missing" in missing
    assert left.startswith(f"{models}/runs/pytorch-simple-1/mnist_cnn.pt exists")
    (models / "runs" / "pytorch-simple-1" / "mnist_cnn.pt").unlink()
    assert list(inspection.model_findings(outputs(models), STACK_, settled())) == [missing]
    assert list(inspection.model_findings(outputs(models, "Suspended"), STACK_, settled())) == []


def test_another_runs_model_is_found(models: Path) -> None:
    (models / "mnist_cnn.pt").write_bytes(b"other")
    (finding,) = inspection.model_findings(outputs(models), STACK_, settled())
    assert ", the model of pytorch-simple's run" in finding


def test_what_goes_in_time_is_no_finding(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    views = iter([leaving(-1), leaving(-1), settled()])
    monkeypatch.setattr(inspection, "objects", lambda *_: next(views))
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    assert inspection.inspect(STACK_, outputs(models), print) == []


def test_what_stays_is_a_finding(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1000, 20))
    monkeypatch.setattr(inspection, "objects", lambda *_: leaving(1))
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    (finding,) = inspection.inspect(STACK_, outputs(models), print)
    assert "is Terminating" in finding

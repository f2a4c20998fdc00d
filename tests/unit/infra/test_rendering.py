"""What a reviewer reads is what is registered."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from infra import dataset, paths
from infra.clusters import existing, selection
from infra.clusters.discovery import Found
from infra.config import ConfigError, Stack, from_file
from infra.objects.manifest import Manifest
from infra.review import __main__ as review
from infra.review import rendering
from infra.training_operator import overlay, patches
from tests.unit.infra.recorder import OUTPUTS, REFERENCE, Recorder
from tests.unit.infra.samples import JOB, OVERLAY, stack
from toolchain.tools import go_modules

PROGRAM = Path(paths.__file__).parent / "__main__.py"
STACKS = sorted((paths.ROOT / "stacks").glob("Pulumi.*.yaml"))
REPOSITORY = OUTPUTS["pulumi-python:dynamic/trainstack:RepositoryImage"]["reference"]


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Recorder:
    mocks = Recorder()
    monkeypatch.setattr(overlay, "rendered", lambda where, cache: OVERLAY)
    monkeypatch.setattr(dataset, "resolve", lambda chosen, folder, root: rendered_dataset(chosen))
    monkeypatch.setattr(existing, "kubeconfig_path", lambda chosen: tmp_path / "none")
    return mocks


def rendered_dataset(chosen: Any) -> Any:
    known = stack(job={"name": "x", "training": {"dataset": chosen}} if chosen else {"name": "x"})
    return rendering.rendered_datasets(known)["x"]


def registered(mocks: Recorder, path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Manifest]:
    """Run the program on a stack file; the Kubernetes objects that it registers."""
    known = from_file(path)
    found = Found() if known.cluster.kind == "kind" else rendering.ASSUMED
    found = Found() if known.cluster.kind == "microk8s" else found
    monkeypatch.setattr(selection, "examine", lambda chosen: found)
    pulumi.runtime.set_mocks(mocks, project="trainstack", stack=known.name, preview=False)
    config = yaml.safe_load(path.read_text())["config"]
    given = {key: json.dumps(value) for key, value in config.items()}
    monkeypatch.setenv("PULUMI_CONFIG", json.dumps(given))

    @pulumi.runtime.test
    def program() -> None:
        runpy.run_path(str(PROGRAM), run_name="__main__")

    program()
    return mocks.manifests()


def image_of(known: Stack) -> str:
    if known.image.reference:
        return known.image.reference
    return REFERENCE if known.cluster.kind == "kind" else REPOSITORY


@pytest.mark.parametrize("path", STACKS, ids=lambda path: path.stem)
def test_rendered_is_registered(path: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    known = from_file(path)
    planned = rendering.rendered_plan(known)
    datasets = rendering.rendered_datasets(known)
    wanted = [
        *rendering.workload(known, planned, image_of(known), datasets),
        *rendering.operator(known, planned),
    ]
    for name in ("NODE_IMAGE", "OPERATOR_IMAGE", "INIT_IMAGE", "REGISTRY_IMAGE"):
        monkeypatch.delenv(f"TRAINSTACK_{name}", raising=False)
    found = registered(recorder, path, monkeypatch)
    assert found == {f"{each['kind']}/{each['metadata']['name']}": each for each in wanted}


@pytest.mark.parametrize("path", STACKS, ids=lambda path: path.stem)
def test_every_stack_renders_the_same_twice(path: Path, recorder: Recorder) -> None:
    known = from_file(path)
    assert review.files(known) == review.files(known)


def test_a_folder_applies_without_the_crd(recorder: Recorder) -> None:
    names = review.files(stack())
    top = [name for name in names if "/" not in name]
    assert top[-1].endswith("pytorchjob-pytorch-simple.yaml"), "the job comes after what it needs"
    assert all("customresource" not in name for name in top), "it is too long for kubectl's annotation"


def test_no_secret_is_rendered(recorder: Recorder) -> None:
    for text in review.files(stack()).values():
        manifest = yaml.safe_load(text)
        assert manifest["kind"] != "Secret" or "data" not in manifest


def test_a_deadline_after_the_end_is_rendered(recorder: Recorder) -> None:
    known = stack(job={**JOB, "runPolicy": {"ttlSecondsAfterFinished": 60}})
    jobs = [text for name, text in review.files(known).items() if "pytorchjob-" in name]
    assert "ttlSecondsAfterFinished: 60" in jobs[0]


def test_a_broken_policy_stops_the_review(recorder: Recorder) -> None:
    with pytest.raises(ConfigError, match=r"(?s)policy: PersistentVolume.*reclaimPolicy: Retain"):
        review.files(stack(storage={"reclaimPolicy": "Delete"}))


def test_what_a_review_writes_anew_is_named(recorder: Recorder, tmp_path: Path) -> None:
    contents = {"00-namespace-a.yaml": "a", "01-job-b.yaml": "b", "operator/00-x.yaml": "x"}
    review.write(tmp_path / "dev", contents)
    assert review.changes(tmp_path / "dev", contents) == []
    fresh = {"00-namespace-a.yaml": "a", "01-job-c.yaml": "b", "operator/00-x.yaml": "y"}
    assert review.changes(tmp_path / "dev", fresh) == [
        "removed: 01-job-b.yaml",
        "new: 01-job-c.yaml",
        "changed: operator/00-x.yaml",
    ]
    assert review.changes(tmp_path / "never", {"a.yaml": ""}) == ["new: a.yaml"]


def operator_with(image: str) -> list[Manifest]:
    deployment = next(each for each in OVERLAY if each["kind"] == "Deployment")
    return patches.patched([deployment], "dev", image, patches.INIT_IMAGE)


def test_another_version_of_upstreams_operator_is_allowed_by_its_tag() -> None:
    rendering.ensure_allowed(stack(), operator_with(f"{rendering.OPERATOR}:v1-0123456"))


def test_an_operator_of_somebody_elses_is_not() -> None:
    with pytest.raises(ConfigError, match=r"ghcr.io/you/training-operator:v1 has no digest"):
        rendering.ensure_allowed(stack(), operator_with("ghcr.io/you/training-operator:v1"))


def test_the_published_overlay_is_of_the_version_that_is_built() -> None:
    assert f"v{go_modules.load('training-operator').version}" == overlay.VERSION


def test_stale_files_are_shown_as_a_difference(recorder: Recorder, tmp_path: Path) -> None:
    contents = review.files(stack())
    review.write(tmp_path / "dev", contents)
    assert review.stale(tmp_path / "dev", contents) == ""
    changed = review.files(stack(job={**JOB, "training": {"epochs": 2}}))
    difference = review.stale(tmp_path / "dev", changed)
    assert "---epochs=1" in difference.replace(" ", "")
    assert "+---epochs=2" in difference.replace(" ", "")

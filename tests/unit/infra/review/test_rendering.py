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
from infra.clusters import addresses, selection
from infra.clusters.discovery import ClusterContents
from infra.clusters.existing import component
from infra.config import ConfigError, Stack, from_file
from infra.config.load import from_raw
from infra.config.training import Dataset
from infra.guard import admission
from infra.guard import component as guard
from infra.job.manifest import manifest, run_of
from infra.objects import owner
from infra.objects.manifest import Manifest
from infra.review import folder, rendering
from infra.review.text import text
from infra.training_operator import overlay, patches
from tests.matrix import entries
from tests.matrix.project import with_changes
from tests.unit.infra.recorder import OUTPUTS, OWNER_ID, REFERENCE, Recorder
from tests.unit.infra.samples import JOB, OVERLAY, job_context, stack

PROGRAM = Path(paths.__file__).parent / "__main__.py"
STACKS = sorted((paths.ROOT / "stacks").glob("Pulumi.*.yaml"))
REPOSITORY = OUTPUTS["pulumi-python:dynamic/trainstack:RepositoryImage"]["reference"]


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Recorder:
    mocks = Recorder()
    monkeypatch.setattr(overlay, "rendered", lambda where, cache: OVERLAY)
    monkeypatch.setattr(dataset, "resolve", lambda chosen, folder, root: rendered_dataset(chosen))
    for module in (component, addresses, selection):
        monkeypatch.setattr(module, "kubeconfig_path", lambda chosen: tmp_path / "none")
    return mocks


def rendered_dataset(chosen: Any) -> Any:
    known = stack(job={"name": "x", "training": {"dataset": chosen}} if chosen else {"name": "x"})
    return rendering.rendered_datasets(known)["x"]


def registered(mocks: Recorder, path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Manifest]:
    """Run the program on a stack file; the Kubernetes objects that it registers."""
    known = from_file(path)
    found = ClusterContents() if known.cluster.kind == "kind" else rendering.ASSUMED
    found = ClusterContents() if known.cluster.kind == "microk8s" else found
    monkeypatch.setattr(selection, "examine", lambda chosen, is_ours, look: found)
    monkeypatch.setattr(selection, "_is_gone", lambda chosen: True)
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
        *guard.manifests(known),
        *rendering.operator(known, planned),
    ]
    for name in ("NODE_IMAGE", "OPERATOR_IMAGE", "INIT_IMAGE", "REGISTRY_IMAGE"):
        monkeypatch.delenv(f"TRAINSTACK_{name}", raising=False)
    found = registered(recorder, path, monkeypatch)
    # A review shows a stack's manifests without the id of whoever applies them.
    marked = [{**each, "metadata": owner.marked(each["metadata"], known.name, OWNER_ID)} for each in wanted]
    assert found == {f"{each['kind']}/{each['metadata']['name']}": each for each in marked}


@pytest.mark.parametrize("path", STACKS, ids=lambda path: path.stem)
def test_every_stack_renders_the_same_twice(path: Path, recorder: Recorder) -> None:
    known = from_file(path)
    assert folder.files(known) == folder.files(known)


def test_a_folder_applies_without_the_crd(recorder: Recorder) -> None:
    names = folder.files(stack())
    top = [name for name in names if name.count("/") == 2 and name.startswith("rendered/dev/")]
    assert top[-1].endswith("pytorchjob-pytorch-simple.yaml"), "the job comes after what it needs"
    assert all("customresource" not in name for name in top), "it is too long for kubectl's annotation"


def test_the_crd_is_rendered_once_for_all_stacks(recorder: Recorder) -> None:
    name = "rendered/shared/00-customresourcedefinition-pytorchjobs.kubeflow.org.yaml"
    of_dev, of_other = folder.files(stack()), folder.files(stack("other"))
    assert of_dev[name] == of_other[name]
    assert [each for each in (*of_dev, *of_other) if "customresource" in each] == [name, name]
    known = stack()
    registered = rendering.operator(known, rendering.rendered_plan(known))[0]
    assert yaml.safe_load(of_dev[name]) == folder.of_every_stack(registered)
    assert registered["metadata"]["labels"]["trainstack/stack"] == "dev", (
        "it is the stack's that installed it"
    )


def test_no_secret_is_rendered(recorder: Recorder) -> None:
    for rendered in folder.files(stack()).values():
        manifest = yaml.safe_load(rendered)
        assert manifest["kind"] != "Secret" or "data" not in manifest


def test_a_deadline_after_the_end_is_rendered(recorder: Recorder) -> None:
    known = stack(job={**JOB, "runPolicy": {"ttlSecondsAfterFinished": 60}})
    jobs = [text for name, text in folder.files(known).items() if "pytorchjob-" in name]
    assert "ttlSecondsAfterFinished: 60" in jobs[0]


def test_a_broken_policy_stops_the_review(recorder: Recorder) -> None:
    with pytest.raises(ConfigError, match=r"(?s)policy: PersistentVolume.*reclaimPolicy: Retain"):
        folder.files(stack(storage={"reclaimPolicy": "Delete"}))


def test_what_a_review_writes_anew_is_named(tmp_path: Path) -> None:
    kept = {"rendered/dev/00-namespace-a.yaml": "a", "gitops/dev/kept/00-namespace-a.yaml": "a"}
    contents = {**kept, "rendered/dev/01-job-b.yaml": "b", "rendered/shared/00-x.yaml": "x"}
    contents["gitops/dev/jobs/01-job-b.yaml"] = "b"
    folder.write(tmp_path, "dev", contents)
    folder.write(tmp_path, "other", {"rendered/other/00-a.yaml": "a", "gitops/other/00-a.yaml": "a"})
    assert folder.changes(tmp_path, "dev", contents) == []
    fresh = {**kept, "rendered/dev/01-job-c.yaml": "b", "rendered/shared/00-x.yaml": "y"}
    assert folder.changes(tmp_path, "dev", fresh) == [
        "removed: gitops/dev/jobs/01-job-b.yaml",
        "removed: rendered/dev/01-job-b.yaml",
        "new: rendered/dev/01-job-c.yaml",
        "changed: rendered/shared/00-x.yaml",
    ]
    folder.write(tmp_path, "dev", fresh)
    assert folder.changes(tmp_path, "dev", fresh) == []
    assert all((tmp_path / each / "other" / "00-a.yaml").exists() for each in ("rendered", "gitops")), (
        "another's"
    )
    never = {"rendered/never/a.yaml": ""}
    assert folder.changes(tmp_path, "never", never) == ["new: rendered/never/a.yaml"]


def operator_with(image: str) -> list[Manifest]:
    deployment = next(each for each in OVERLAY if each["kind"] == "Deployment")
    return patches.patched([deployment], "dev", image, patches.INIT_IMAGE, "kubeflow")


def test_another_version_of_upstreams_operator_is_allowed_by_its_tag() -> None:
    rendering.ensure_allowed(stack(), operator_with(f"{admission.OPERATOR}:v1-0123456"))


def test_an_operator_of_somebody_elses_is_not() -> None:
    with pytest.raises(ConfigError, match=r"ghcr.io/you/training-operator:v1 has no digest"):
        rendering.ensure_allowed(stack(), operator_with("ghcr.io/you/training-operator:v1"))


def test_stale_files_are_shown_as_a_difference(recorder: Recorder, tmp_path: Path) -> None:
    contents = folder.files(stack())
    folder.write(tmp_path, "dev", contents)
    assert folder.stale(tmp_path, "dev", contents) == ""
    (
        tmp_path / "rendered" / "shared" / "00-customresourcedefinition-pytorchjobs.kubeflow.org.yaml"
    ).write_text("")
    assert "committed/rendered/shared" in folder.stale(tmp_path, "dev", contents)
    assert folder.stale(tmp_path, "dev", contents, skip=("rendered/dev/operator", "rendered/shared")) == ""


def changed_lines(tmp_path: Path, skip: str, **training: Any) -> list[str]:
    """What a reviewer sees of a job whose training is changed, without file names and context."""
    folder.write(tmp_path, "dev", folder.files(stack()))
    given = {**JOB, "training": {**JOB["training"], **training}}
    difference = folder.stale(tmp_path, "dev", folder.files(stack(job=given)), [skip])
    return [line.split(maxsplit=1)[1] for line in difference.splitlines() if line[:2] in ("- ", "+ ")]


@pytest.mark.parametrize("skip", [folder.GITOPS, folder.RENDERED])
def test_other_epochs_change_two_lines(recorder: Recorder, tmp_path: Path, skip: str) -> None:
    old_run, run, old, new = changed_lines(tmp_path, skip, epochs=2)
    assert (old, new) == ("- --epochs=1", "- --epochs=2")
    assert old_run.startswith("trainstack/run: &run pytorch-simple-")
    assert run.startswith("trainstack/run: &run pytorch-simple-")
    assert old_run != run


@pytest.mark.parametrize("replicas", [{"worker": 1}, {"worker": 3}, {"worker": None}])
def test_a_job_of_any_size_reads_as_the_same_object(replicas: dict[str, Any]) -> None:
    job = stack(job={**JOB, "replicas": replicas}).jobs[0]
    wanted = manifest(job, job_context())
    assert yaml.safe_load(text(wanted)) == wanted
    assert text(wanted).count(run_of(wanted)) == 1, "the run's id stands on one line"


def test_pods_that_differ_are_shown_in_full() -> None:
    wanted = manifest(stack().jobs[0], job_context())
    wanted["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["nodeSelector"] = {"disk": "big"}
    assert yaml.safe_load(text(wanted)) == wanted
    assert "&pod" not in text(wanted)


def test_what_auto_may_come_to_is_said(recorder: Recorder) -> None:
    job = yaml.safe_load(folder.files(stack())["rendered/dev/05-pytorchjob-pytorch-simple.yaml"])
    note = job["metadata"]["annotations"]["trainstack/dataset"]
    assert "digits" in note
    assert "--epochs=12" in note
    chosen = manifest(stack(job={"name": "x", "training": {"dataset": "digits"}}).jobs[0], job_context())
    assert "trainstack/dataset" not in chosen["metadata"]["annotations"]


def test_this_machines_data_is_rendered_where_it_is_asked_for(recorder: Recorder) -> None:
    names = folder.files(stack(), {"pytorch-simple": Dataset.DIGITS})
    assert "--epochs=12" in names["rendered/dev/05-pytorchjob-pytorch-simple.yaml"]


def ordered(value: Any, reverse: bool) -> Any:
    """`value` with the keys of its mappings sorted, as Pulumi hands them over, or in the reverse order."""
    if isinstance(value, list):
        return [ordered(each, reverse) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: ordered(value[key], reverse) for key in sorted(value, reverse=reverse)}


# Mappings whose keys are the user's own, beside those of the matrix's entries.
MAPPINGS: dict[str, dict[str, Any]] = {
    "env": {
        "job.env": {"Z": "1", "A": "$(Z)2", "TRAINER_DATASET": "digits", "M": {"secret": "s", "key": "k"}}
    },
    "encrypted": {"job.env": {"Z": {"secure": "v1:a:b"}, "A": {"secure": "v1:c:d"}}},
    "selectors": {"job.nodeSelector": {"z": "1", "a": "2"}, "job.labels": {"z": "1", "a": "2"}},
    "annotations": {"job.annotations": {"z": "1", "a": "2"}, "storage.labels": {"z": "1", "a": "2"}},
    "matrix": {"matrix.options": {"training.seed": [1, 2], "training.lr": [0.1, 0.2], "env.Z": ["x"]}},
    "requests": {"job.resources": {"requests": {"memory": "1Gi", "cpu": 1}}},
}
GIVEN = {**MAPPINGS, **{key: entry.applied(key) for key, entry in entries.OBJECTS.items()}}


@pytest.mark.parametrize("key", GIVEN)
def test_the_order_of_a_mapping_in_the_stack_file_makes_no_difference(
    monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """`pulumi up` gets mappings sorted, a review and a GitOps engine as the file has them."""
    monkeypatch.setattr(rendering, "operator", lambda known, planned: [])
    monkeypatch.setattr(rendering, "ensure_allowed", lambda known, manifests: None)
    sections = with_changes(GIVEN[key])
    sorted_one, reversed_one = (
        folder.files(from_raw("shown", ordered(sections, reverse), "")) for reverse in (False, True)
    )
    assert list(reversed_one) == list(sorted_one)
    for name, content in sorted_one.items():
        assert yaml.safe_load(reversed_one[name]) == yaml.safe_load(content)

"""What a reviewer reads is what is registered."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from infra import dataset, docker, operators, paths, stack_plan
from infra.clusters import addresses, selection
from infra.clusters.discovery import ClusterContents
from infra.clusters.existing import component
from infra.config import ConfigError, Stack, from_file
from infra.config.load import from_raw
from infra.config.operator import Install, OperatorApi
from infra.config.training import Dataset
from infra.guard import admission
from infra.image.component import rendered_reference
from infra.job.manifest import manifest, run_of
from infra.objects import owner
from infra.objects.job_kinds import OF_API
from infra.objects.kinds import title
from infra.objects.manifest import Manifest
from infra.review import folder, gitops
from infra.review.text import objects_in, text
from infra.training_operator import patches
from infra.training_operator.patches import CRD_KIND
from infra.training_operator.plan import plan
from infra.upstream import vendored
from tests.matrix import entries
from tests.matrix.project import with_changes
from tests.unit.infra.recorder import OUTPUTS, OWNER_ID, REFERENCE, Recorder, run_program
from tests.unit.infra.samples import JOB, OVERLAY, job_context, stack, upstreams

JOBS = "rendered/dev/jobs/jobs.yaml"
IMAGE = "localhost:5000/trainer:1"
STACKS = sorted((paths.ROOT / "stacks").glob("Pulumi.*.yaml"))
REPOSITORY = OUTPUTS["pulumi-python:dynamic/trainstack:RepositoryImage"]["reference"]


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Recorder:
    mocks = Recorder()
    monkeypatch.setattr(vendored, "objects", upstreams)
    monkeypatch.setattr(dataset, "resolve", lambda chosen, folder, root: rendered_dataset(chosen))
    for module in (component, addresses):
        monkeypatch.setattr(module, "kubeconfig_path", lambda chosen: tmp_path / "none")
    return mocks


def rendered_dataset(chosen: Any) -> Any:
    known = stack(job={"name": "x", "training": {"dataset": chosen}} if chosen else {"name": "x"})
    return dataset.of_review(known)["x"]


def registered(mocks: Recorder, path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Manifest]:
    """Run the program on a stack file; the Kubernetes objects that it registers."""
    known = from_file(path)
    found = ClusterContents() if known.cluster.kind == "kind" else stack_plan.ASSUMED
    found = ClusterContents() if known.cluster.kind == "microk8s" else found
    monkeypatch.setattr(selection, "examine", lambda chosen, is_ours, look: found)
    for each in selection.PROTOCOLS.values():
        monkeypatch.setattr(type(each), "is_gone", lambda *asked: True)
    monkeypatch.setattr(docker, "labelled", lambda label: [])
    pulumi.runtime.set_mocks(mocks, project="trainstack", stack=known.name, preview=False)
    config = yaml.safe_load(path.read_text())["config"]
    given = {key: json.dumps(value) for key, value in config.items()}
    monkeypatch.setenv("PULUMI_CONFIG", json.dumps(given))
    monkeypatch.setattr(pulumi, "get_root_directory", lambda: str(path.parent.parent))
    run_program()
    return mocks.manifests()


def image_of(known: Stack) -> str:
    if known.image.reference:
        return known.image.reference
    return REFERENCE if known.cluster.kind == "kind" else REPOSITORY


@pytest.mark.parametrize("path", STACKS, ids=lambda path: path.stem)
def test_rendered_is_registered(path: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    known = from_file(path)
    planned = stack_plan.reviewed(known)
    wanted = [each.manifest for each in stack_plan.of(known, planned, image=image_of(known))]
    for name in ("NODE_IMAGE", "OPERATOR_IMAGE", "INIT_IMAGE", "REGISTRY_IMAGE"):
        monkeypatch.delenv(f"TRAINSTACK_{name}", raising=False)
    found = registered(recorder, path, monkeypatch)
    # A review shows a stack's manifests without the id of whoever applies them.
    marked = [{**each, "metadata": owner.marked(each["metadata"], known.name, OWNER_ID)} for each in wanted]
    assert found == {f"{each['kind']}/{each['metadata']['name']}": each for each in marked}


@pytest.mark.parametrize("namespace", ["kubeflow", "theirs"])
@pytest.mark.parametrize("api", OperatorApi)
@pytest.mark.parametrize("install", [Install.AUTO, Install.ALWAYS])
def test_what_a_review_takes_to_be_there_is_told_from_what_it_shows(
    install: Install, api: OperatorApi, namespace: str
) -> None:
    """Whatever is missing in a cluster of others; in one of the stack's own a review takes nothing to be there."""
    for kind in ("existing", "microk8s"):
        known = stack(
            cluster={"kind": kind, "namespace": namespace},
            operator={"install": install.value, "api": api.value},
            image={"reference": IMAGE, "unpinned": True},
        )
        planned = plan(known, ClusterContents())
        shown, applied = (
            [title(each.manifest) for each in stack_plan.of(known, parts)]
            for parts in (stack_plan.reviewed(known), planned)
        )
        unseen = stack_plan.unseen(known, stack_plan.of(known, planned))
        assert sorted(unseen) == sorted(set(applied) - set(shown))
        assert bool(unseen) is (kind == "existing" and install is Install.AUTO)


def test_a_folder_applies_without_the_crd(recorder: Recorder) -> None:
    groups = folder.groups(stack())
    kinds = [each["kind"] for objects in groups.values() for each in objects]
    assert kinds[0] == "Namespace"
    assert kinds[-1] == "PyTorchJob", "the job comes after what it needs"
    assert CRD_KIND not in kinds, "it is too long for kubectl's annotation"


def test_a_definition_lies_once_in_the_tree() -> None:
    listed = subprocess.check_output(["git", "ls-files", "*.yaml"], cwd=paths.ROOT, text=True).split()
    texts = {name: (paths.ROOT / name).read_text() for name in listed if (paths.ROOT / name).exists()}
    defining = [name for name, each in texts.items() if re.search(f"^kind: {CRD_KIND}$", each, re.MULTILINE)]
    assert defining
    assert [name for name in defining if not name.startswith(f"{folder.UPSTREAM}/")] == []
    names = [Path(name).name for name in defining]
    assert len(names) == len(set(names))


def test_a_stack_brings_the_definitions_of_its_api_where_nobody_else_has() -> None:
    for api in OperatorApi:
        brought = [Path(name).stem for name in folder.definitions(stack(operator={"api": api.value}))]
        assert sorted(brought) == sorted(OF_API[api].crds)
    assert folder.definitions(stack(operator={"install": "never"})) == {}


def test_a_deadline_after_the_end_is_rendered(recorder: Recorder) -> None:
    known = stack(job={**JOB, "runPolicy": {"ttlSecondsAfterFinished": 60}})
    assert "ttlSecondsAfterFinished: 60" in folder.files(known)[JOBS]


def test_a_broken_policy_stops_the_review(recorder: Recorder) -> None:
    with pytest.raises(ConfigError, match=r"(?s)policy: PersistentVolume.*reclaimPolicy: Retain"):
        folder.files(stack(storage={"reclaimPolicy": "Delete"}))


def test_what_a_review_writes_anew_is_named(tmp_path: Path) -> None:
    kept = {"rendered/dev/kept/kept.yaml": "a"}
    contents = {**kept, JOBS: "b", "rendered/dev/operator/operator.yaml": "x"}
    folder.write(tmp_path, "dev", contents)
    folder.write(tmp_path, "other", {"rendered/other/kept/kept.yaml": "a"})
    assert folder.changes(tmp_path, "dev", contents) == []
    fresh = {**kept, "rendered/dev/guard/guard.yaml": "c", "rendered/dev/operator/operator.yaml": "y"}
    assert folder.changes(tmp_path, "dev", fresh) == [
        "new: rendered/dev/guard/guard.yaml",
        f"removed: {JOBS}",
        "changed: rendered/dev/operator/operator.yaml",
    ]
    folder.write(tmp_path, "dev", fresh)
    assert folder.changes(tmp_path, "dev", fresh) == []
    assert (tmp_path / "rendered/other/kept/kept.yaml").exists(), "another's"
    never = {"rendered/never/a.yaml": ""}
    assert folder.changes(tmp_path, "never", never) == ["new: rendered/never/a.yaml"]


def operator_with(image: str) -> list[Manifest]:
    deployment = next(each for each in OVERLAY if each["kind"] == "Deployment")
    made = patches.patched([deployment], "dev", "kubeflow")
    made[0]["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return made


def test_another_version_of_upstreams_operator_is_allowed_by_its_tag() -> None:
    stack_plan.ensure_allowed(stack(), operator_with(f"{admission.OPERATOR}:v1-0123456"))


def test_an_operator_of_somebody_elses_is_not() -> None:
    with pytest.raises(ConfigError, match=r"ghcr.io/you/training-operator:v1 has no digest"):
        stack_plan.ensure_allowed(stack(), operator_with("ghcr.io/you/training-operator:v1"))


def test_stale_files_are_shown_as_a_difference(recorder: Recorder, tmp_path: Path) -> None:
    contents = folder.files(stack())
    folder.write(tmp_path, "dev", contents)
    assert folder.stale(tmp_path, "dev", contents) == ""
    (tmp_path / "rendered/dev/kept/kept.yaml").write_text("")
    assert "committed/rendered/dev/kept" in folder.stale(tmp_path, "dev", contents)


def changed_lines(tmp_path: Path, known: Stack) -> list[str]:
    """What a reviewer sees of another stack in place of the usual one, without file names and context."""
    folder.write(tmp_path, "dev", folder.files(stack()))
    difference = folder.stale(tmp_path, "dev", folder.files(known))
    lines = [line for line in difference.splitlines() if not line.startswith(("---", "+++"))]
    return [line[1:].strip() for line in lines if line[:1] in ("-", "+")]


def test_other_epochs_change_three_lines(recorder: Recorder, tmp_path: Path) -> None:
    """Two of the job, and its name for engines."""
    training = {**JOB["training"], "epochs": 2}
    old_run, run, old, new, old_name, name = changed_lines(tmp_path, stack(job={**JOB, "training": training}))
    assert (old, new) == ("- --epochs=1", "- --epochs=2")
    for each in (old_run, run):
        assert each.startswith("trainstack/run: &run pytorch-simple-")
    for shown, value in ((old_name, old_run), (name, run)):
        assert '"path": "/metadata/name"' in shown
        assert value.split()[-1] in shown
    assert old_run != run


@pytest.mark.parametrize("path", STACKS, ids=lambda path: path.stem)
def test_what_an_image_is_made_of_stands_on_one_line(path: Path) -> None:
    """Of all jobs, and of the Job that prepares the volume."""
    rendered = (folder.STACKS / folder.RENDERED / from_file(path).name).rglob("*.yaml")
    texts = [each.read_text() for each in rendered]
    assert sum(each.count(rendered_reference(from_file(path))) for each in texts) == 1


@pytest.mark.parametrize("replicas", [{"worker": 1}, {"worker": 3}, {"worker": None}])
def test_a_job_of_any_size_reads_as_the_same_object(replicas: dict[str, Any]) -> None:
    job = stack(job={**JOB, "replicas": replicas}).jobs[0]
    wanted = manifest(job, job_context())
    assert objects_in(text([wanted], IMAGE)) == [wanted]
    assert text([wanted], IMAGE).count(run_of(wanted)) == 1, "the run's id stands on one line"


@pytest.mark.parametrize("api", OperatorApi)
def test_jobs_of_one_file_read_as_the_same_objects(recorder: Recorder, api: OperatorApi) -> None:
    """Each run and each pod has an anchor of its own."""
    matrix = {"options": {"training.seed": [1, 2, 3]}}
    known = stack(operator={"api": api.value}, job=JOB, matrix=matrix)
    jobs = folder.groups(known)[gitops.JOBS]
    content = text(jobs, IMAGE)
    assert objects_in(content) == jobs
    runs = [run_of(each) for each in jobs if each["kind"] == OF_API[api].kind]
    assert len(runs) == 3
    assert all(len(re.findall(f"{run}$", content, re.MULTILINE)) == 1 for run in runs)


def test_pods_that_differ_are_shown_in_full() -> None:
    wanted = manifest(stack().jobs[0], job_context())
    wanted["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["nodeSelector"] = {"disk": "big"}
    assert objects_in(text([wanted], IMAGE)) == [wanted]
    assert "&pod" not in text([wanted], IMAGE)


def test_what_auto_may_come_to_is_said(recorder: Recorder) -> None:
    (job,) = objects_in(folder.files(stack())[JOBS])
    note = job["metadata"]["annotations"]["trainstack/dataset"]
    assert "digits" in note
    assert "--epochs=12" in note
    chosen = manifest(stack(job={"name": "x", "training": {"dataset": "digits"}}).jobs[0], job_context())
    assert "trainstack/dataset" not in chosen["metadata"]["annotations"]


def test_this_machines_data_is_rendered_where_it_is_asked_for(recorder: Recorder) -> None:
    names = folder.files(stack(), {"pytorch-simple": Dataset.DIGITS})
    assert "--epochs=12" in names[JOBS]


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
    "selectors": {
        "job.pod": {"spec": {"nodeSelector": {"z": "1", "a": "2"}}},
        "job.labels": {"z": "1", "a": "2"},
    },
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
    monkeypatch.setattr(operators, "manifests", lambda known, planned: [])
    monkeypatch.setattr(stack_plan, "ensure_allowed", lambda known, manifests: None)
    sections = with_changes(GIVEN[key])
    sorted_one, reversed_one = (
        folder.files(from_raw("shown", ordered(sections, reverse), "")) for reverse in (False, True)
    )
    assert list(reversed_one) == list(sorted_one)
    for name, content in sorted_one.items():
        assert yaml.safe_load(reversed_one[name]) == yaml.safe_load(content)

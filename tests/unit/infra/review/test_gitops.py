"""What engines apply is what is reviewed, but for the jobs' names and the engines' own annotations."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.config import Stack, from_file
from infra.config.job import QUEUE_LABEL
from infra.config.names import BATCH_NAME_LENGTH
from infra.job.manifest import run_of
from infra.objects.manifest import Manifest
from infra.review import folder, gitops
from tests.unit.infra.recorder import Recorder
from tests.unit.infra.review import test_rendering
from tests.unit.infra.samples import JOB, stack

recorder = test_rendering.recorder
ENGINES = ("argocd.argoproj.io/", "kustomize.toolkit.fluxcd.io/")
NAMED_ANEW = ("PyTorchJob", "Job")
OTHERS: dict[str, Any] = {
    "cluster": {"kind": "existing"},
    "operator": {"install": "never"},
    "image": {"repository": "registry.example/trainer"},
}


@cache
def committed(path: Path) -> dict[str, str]:
    """Path below stacks/ -> contents."""
    return folder.files(from_file(path))


def objects(files: dict[str, str], below: str) -> dict[str, Manifest]:
    """File's name, with the folder `operator` where it lies there, -> object."""
    (stack,) = {name.split("/")[1] for name in files} - {"shared", gitops.KUSTOMIZATION}
    named = of_stack(files, f"{below}/{stack}/")
    named.pop(gitops.KUSTOMIZATION, None)
    kept, jobs = f"{gitops.KEPT}/", f"{gitops.JOBS}/"
    plain = {name.removeprefix(kept).removeprefix(jobs): each for name, each in named.items()}
    return {name: yaml.safe_load(each) for name, each in plain.items()}


def of_stack(files: dict[str, str], top: str) -> dict[str, str]:
    return {name.removeprefix(top): each for name, each in files.items() if name.startswith(top)}


def without_engines(manifest: Manifest) -> Manifest:
    """`manifest` without engines' annotations, and without the name of a job."""
    metadata = dict(manifest["metadata"])
    noted = {
        key: value for key, value in metadata.pop("annotations", {}).items() if not key.startswith(ENGINES)
    }
    if manifest["kind"] in NAMED_ANEW:
        del metadata["name"]
    return {**manifest, "metadata": {**metadata, **({"annotations": noted} if noted else {})}}


@pytest.mark.parametrize("path", test_rendering.STACKS, ids=lambda path: path.stem)
def test_what_engines_apply_is_what_is_reviewed(path: Path, recorder: Recorder) -> None:
    files = committed(path)
    reviewed, applied = objects(files, folder.RENDERED), objects(files, folder.GITOPS)
    assert {name: without_engines(each) for name, each in applied.items()} == {
        name: without_engines(each) for name, each in reviewed.items()
    }
    jobs = [each for each in applied.values() if each["kind"] == "PyTorchJob"]
    assert {each["metadata"]["name"] for each in jobs} == {run_of(each) for each in jobs}
    assert len(jobs) == len(from_file(path).jobs)


@pytest.mark.parametrize("path", test_rendering.STACKS, ids=lambda path: path.stem)
def test_no_engine_prunes_what_holds_models(path: Path, recorder: Recorder) -> None:
    for name, each in objects(committed(path), folder.GITOPS).items():
        is_kept = gitops.NEVER_PRUNED.items() <= each["metadata"].get("annotations", {}).items()
        assert is_kept is (each["kind"] in gitops.KEPT_KINDS and not name.startswith("operator/")), name


@pytest.mark.parametrize("path", test_rendering.STACKS, ids=lambda path: path.stem)
def test_the_kustomization_names_each_file_once(path: Path, recorder: Recorder) -> None:
    files = of_stack(committed(path), f"gitops/{from_file(path).name}/")
    resources = yaml.safe_load(files.pop(gitops.KUSTOMIZATION))["resources"]
    shared = [each for each in resources if each.startswith("../")]
    assert sorted(resources) == sorted([*shared, *files])
    assert shared == (["../../rendered"] if any("operator/" in name for name in files) else [])


def named(known: Stack, kind: str) -> str:
    (found,) = [each for each in objects(folder.files(known), folder.GITOPS).values() if each["kind"] == kind]
    return str(found["metadata"]["name"])


def on_others(**job: Any) -> Stack:
    return stack(**OTHERS, job={**JOB, **job})


def test_another_run_is_another_job(recorder: Recorder) -> None:
    names = [named(on_others(**given), "PyTorchJob") for given in ({}, {"rerun": 1}, {"args": ["--x"]})]
    assert len(set(names)) == 3
    assert all(name.startswith(f"{JOB['name']}-") for name in names)


def test_the_same_run_keeps_its_job(recorder: Recorder) -> None:
    """Two jobs of one run would write to one folder at a time."""
    assert named(on_others(resources={"memory": "3Gi"}), "PyTorchJob") == named(on_others(), "PyTorchJob")


def test_another_preparation_is_another_job(recorder: Recorder) -> None:
    tolerations = {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}
    assert named(on_others(**tolerations), "Job") != named(on_others(), "Job")
    assert named(on_others(rerun=1), "Job") == named(on_others(), "Job"), "it has been done"


def test_a_preparation_of_any_claim_has_a_name_that_pods_can_be_labelled_with(recorder: Recorder) -> None:
    known = stack(**OTHERS, storage={"claim": "c" * 55}, job=JOB)
    assert len(named(known, "Job")) == BATCH_NAME_LENGTH


def test_engines_leave_it_to_kueue_when_a_job_runs(recorder: Recorder) -> None:
    """They would set a field of theirs again each time that Kueue has changed it."""
    files = folder.files(on_others(queue="team-a"))
    reviewed, applied = (job_in(files, below) for below in (folder.RENDERED, folder.GITOPS))
    assert {each["metadata"]["labels"][QUEUE_LABEL] for each in (reviewed, applied)} == {"team-a"}
    policy = reviewed["spec"]["runPolicy"]
    assert policy["suspend"] is True
    assert applied["spec"]["runPolicy"] == {key: policy[key] for key in policy if key != "suspend"}
    by_user = job_in(folder.files(on_others(runPolicy={"suspend": True})), folder.GITOPS)
    assert by_user["spec"]["runPolicy"]["suspend"] is True, "the user's own stays"


def job_in(files: dict[str, str], below: str) -> Manifest:
    (found,) = [each for each in objects(files, below).values() if each["kind"] == "PyTorchJob"]
    return found


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        ({"name": "x", "runPolicy": {"ttlSecondsAfterFinished": 60}}, "ttlSecondsAfterFinished"),
        ({"name": "x" * 42}, "longer than 41"),
        ({"name": "x" * 41}, None),
    ],
)
def test_a_job_that_no_engine_can_hold_is_not_rendered_for_any(
    recorder: Recorder, job: dict[str, Any], reason: str | None
) -> None:
    known = on_others(**job)
    told = gitops.obstacle(known)
    assert (told is None) if reason is None else (told is not None and reason in told)
    files = folder.files(known)
    assert bool(objects(files, folder.GITOPS)) is (reason is None)
    assert objects(files, folder.RENDERED)

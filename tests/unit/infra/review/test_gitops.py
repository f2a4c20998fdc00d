"""What engines apply is what is reviewed, but for the jobs' names and the engines' own annotations."""

from __future__ import annotations

import copy
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import paths
from infra.config import Stack, from_raw
from infra.config.load import read, stack_name
from infra.config.names import BATCH_NAME_LENGTH
from infra.config.operator import OperatorApi
from infra.job.manifest import run_of
from infra.objects.job_kinds import NAMES, OF_API, PYTORCHJOB, RUNTIME, TRAINJOB
from infra.objects.manifest import Manifest
from infra.review import folder, gitops
from infra.stack_plan import job_objects
from infra.upstream import vendored
from tests.matrix import entries
from tests.matrix.entries import Entry
from tests.matrix.project import set_key
from tests.unit.infra.job.test_trainjob import is_refused
from tests.unit.infra.recorder import Recorder
from tests.unit.infra.review import test_rendering
from tests.unit.infra.samples import JOB, job_context, operators_of_both, stack

recorder = test_rendering.recorder
ENGINES = ("argocd.argoproj.io/", "kustomize.toolkit.fluxcd.io/")
WAVE = "argocd.argoproj.io/sync-wave"
PAGE = paths.ROOT / "docs" / "gitops.md"
NAMED_ANEW = (*NAMES, RUNTIME, "Job")
OTHERS: dict[str, Any] = {
    "cluster": {"kind": "existing"},
    "operator": {"install": "never"},
    "image": {"repository": "registry.example/trainer"},
}


STACKS = [
    pytest.param(path, api, id=f"{stack_name(path)}-{api}")
    for path in test_rendering.STACKS
    for api in OperatorApi
]


@pytest.fixture(autouse=True)
def _upstreams(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operators of both APIs."""
    monkeypatch.setattr(vendored, "objects", operators_of_both)


@cache
def committed(path: Path, api: OperatorApi) -> Stack:
    """The stack as it is committed, with jobs for `api`."""
    sections = read(path)
    operator = {**sections.get("operator", {}), "api": api.value}
    return from_raw(stack_name(path), {**sections, "operator": operator}, path.name)


@cache
def files_of(path: Path, api: OperatorApi) -> dict[str, str]:
    """Path below stacks/ -> contents."""
    return folder.files(committed(path, api))


def applied(known: Stack) -> dict[str, list[Manifest]]:
    """Group -> what an engine applies. That the kustomizations make it, tests/matrix/test_gitops.py builds."""
    found = folder.groups(known)
    kept, jobs = found.get(gitops.KEPT, []), found[gitops.JOBS]
    operator = [in_wave(each) for each in found.get(gitops.OPERATOR, [])]
    return {
        **found,
        **({gitops.OPERATOR: operator} if operator else {}),
        **({gitops.KEPT: [never_pruned(each) for each in kept]} if kept else {}),
        gitops.JOBS: [reconciled(each) for each in jobs],
    }


def reconciled(manifest: Manifest) -> Manifest:
    """An object of a stack's jobs after an engine's operations."""
    changed = copy.deepcopy(manifest)
    for each in gitops.operations(manifest):
        *above, last = each["path"].replace("~1", "\0").removeprefix("/").split("/")
        place = changed
        for name in above:
            place = place[name]
        last = last.replace("\0", "/")
        assert (last in place) is (each["op"] != "add")
        if each["op"] == "remove":
            del place[last]
        else:
            place[last] = each["value"]
    return changed


def never_pruned(manifest: Manifest) -> Manifest:
    metadata = manifest["metadata"]
    noted = {**metadata.get("annotations", {}), **gitops.NEVER_PRUNED}
    return {**manifest, "metadata": {**metadata, "annotations": noted}}


def in_wave(manifest: Manifest) -> Manifest:
    """An object of the operator's group; that of a quota comes after Kueue, whose webhook judges it."""
    metadata = manifest["metadata"]
    is_quota = manifest["kind"] in ("ResourceFlavor", "WorkloadPriorityClass", "ClusterQueue", "LocalQueue")
    return {**manifest, "metadata": {**metadata, "annotations": {WAVE: "1"}}} if is_quota else manifest


def without_engines(manifest: Manifest) -> Manifest:
    """`manifest` without engines' annotations, and without the name of a job, wherever it stands."""
    metadata = dict(manifest["metadata"])
    noted = {
        key: value for key, value in metadata.pop("annotations", {}).items() if not key.startswith(ENGINES)
    }
    if manifest["kind"] in NAMED_ANEW:
        del metadata["name"]
    if manifest["kind"] == TRAINJOB.kind:
        reference = {**manifest["spec"]["runtimeRef"], "name": "the runtime"}
        manifest = {**manifest, "spec": {**manifest["spec"], "runtimeRef": reference}}
    return {**manifest, "metadata": {**metadata, **({"annotations": noted} if noted else {})}}


@pytest.mark.parametrize(("path", "api"), STACKS)
def test_what_engines_apply_is_what_is_reviewed(path: Path, api: OperatorApi) -> None:
    known = committed(path, api)
    reviewed, found = folder.groups(known), applied(known)
    for name in reviewed:
        assert [without_engines(each) for each in found[name]] == [
            without_engines(each) for each in reviewed[name]
        ]
    jobs = [each for each in found[gitops.JOBS] if each["kind"] == OF_API[api].kind]
    assert {each["metadata"]["name"] for each in jobs} == {run_of(each) for each in jobs}
    assert len(jobs) == len(known.jobs)


@pytest.mark.parametrize("path", test_rendering.STACKS, ids=lambda path: path.stem)
def test_each_run_of_a_trainjob_has_a_runtime_that_comes_before_it(path: Path) -> None:
    """A webhook refuses a TrainJob without one, and what applies the folder takes the objects in order."""
    jobs_group = applied(committed(path, OperatorApi.V2))[gitops.JOBS]
    runtimes = [each for each in jobs_group if each["kind"] == RUNTIME]
    jobs = [each for each in jobs_group if each["kind"] == TRAINJOB.kind]
    for runtime, job in zip(runtimes, jobs, strict=True):
        assert runtime["metadata"]["name"] == job["spec"]["runtimeRef"]["name"] == run_of(job)
        assert jobs_group.index(runtime) < jobs_group.index(job)
        before, after = (int(each["metadata"]["annotations"][WAVE]) for each in (runtime, job))
        assert 0 < before < after, "the operator answers before"


@pytest.mark.parametrize("api", OperatorApi)
@pytest.mark.parametrize(
    ("storage", "waits"),
    [
        ({"kind": "class", "storageClass": "fast", "prepare": False}, True),
        ({"kind": "class", "storageClass": "fast", "prepare": True}, False),
        ({"kind": "hostPath", "prepare": False}, False),
    ],
)
def test_a_claim_that_waits_for_a_pod_comes_in_the_wave_of_the_job(
    api: OperatorApi, storage: dict[str, Any], waits: bool
) -> None:
    """Argo CD waits for a claim of an earlier wave to be bound, and the class for the first pod."""
    sections = {
        **OTHERS,
        "operator": {**OTHERS["operator"], "api": api.value},
        "storage": storage,
        "job": JOB,
    }
    known = from_raw("dev", sections, "dev")
    files = {
        name.removeprefix("rendered/dev/"): yaml.safe_load(each) for name, each in folder.files(known).items()
    }
    kept = files[f"{gitops.KEPT}/{gitops.KUSTOMIZATION}"]
    (renaming,) = [
        yaml.safe_load(each["patch"])
        for each in files[f"{gitops.JOBS}/{gitops.KUSTOMIZATION}"]["patches"]
        if each["target"]["kind"] == OF_API[api].kind
    ]
    wave = [each for each in renaming if each["path"] == gitops.WAVE]
    target = {"kind": "PersistentVolumeClaim", "name": known.claim}
    found = [(each["target"], yaml.safe_load(each["patch"])) for each in kept.get("patches", [])]
    assert found == ([(target, wave)] if waits else [])


HOLD_MODELS = ("Namespace", "PersistentVolume", "PersistentVolumeClaim", "Secret")


@pytest.mark.parametrize(("path", "api"), STACKS)
def test_no_engine_prunes_what_holds_models(path: Path, api: OperatorApi) -> None:
    groups, files = folder.groups(committed(path, api)), files_of(path, api)
    known = (gitops.KEPT, gitops.GUARD, gitops.OPERATOR, gitops.JOBS)
    assert [*groups] == [each for each in known if each in groups]
    prefix = f"rendered/{stack_name(path)}/"
    assert {each for each in files if folder.has_objects(each)} == {
        f"{prefix}{gitops.file_of(each)}" for each in groups
    }
    for group, objects in groups.items():
        for each in objects:
            is_kept = each["kind"] in HOLD_MODELS and group != gitops.OPERATOR
            assert (group == gitops.KEPT) is is_kept, each["metadata"]["name"]
    content = files[f"{prefix}{gitops.KEPT}/{gitops.KUSTOMIZATION}"]
    assert yaml.safe_load(content)["commonAnnotations"] == gitops.NEVER_PRUNED


def named(known: Stack, kind: str) -> str:
    (found,) = [each for each in applied(known)[gitops.JOBS] if each["kind"] == kind]
    return str(found["metadata"]["name"])


def on_others(api: OperatorApi = OperatorApi.V1, **job: Any) -> Stack:
    operator = {**OTHERS["operator"], "api": api.value}
    return stack(**{**OTHERS, "operator": operator}, job={**JOB, **job})


KINDS = [
    (OperatorApi.V1, PYTORCHJOB.kind),
    (OperatorApi.V2, TRAINJOB.kind),
    (OperatorApi.V2, RUNTIME),
]


@pytest.mark.parametrize(("api", "kind"), KINDS)
def test_another_run_is_another_job(api: OperatorApi, kind: str) -> None:
    names = [named(on_others(api, **given), kind) for given in ({}, {"rerun": 1}, {"args": ["--x"]})]
    assert len(set(names)) == 3
    assert all(name.startswith(f"{JOB['name']}-") for name in names)


@pytest.mark.parametrize(("api", "kind"), KINDS)
def test_the_same_run_keeps_its_job(api: OperatorApi, kind: str) -> None:
    """Two jobs of one run would write to one folder at a time."""
    assert named(on_others(api, resources={"memory": "3Gi"}), kind) == named(on_others(api), kind)


# What the API server holds as it is: CEL rules in the definitions of Trainer 2.3.0.
FOR_LIFE = {
    TRAINJOB.kind: ("runtimeRef", "trainer", "activeDeadlineSeconds", "managedBy"),
    RUNTIME: ("failurePolicy", "network", "startupPolicy", "successPolicy", "volumeClaimPolicies"),
}


def held_for_life(key: str, entry: Entry) -> bool:
    """Whether another value of `key` leaves the run as it is, and changes what its objects keep."""
    before, after = (
        [each for each in found if each["kind"] in FOR_LIFE]
        for found in (of_job(entry.given), of_job(entry.applied(key)))
    )
    is_same_run = run_of(before[-1]) == run_of(after[-1])
    return is_same_run and lasting(before) != lasting(after)


def of_job(changes: dict[str, Any]) -> list[Manifest]:
    sections: dict[str, Any] = {"job": {"name": "mnist"}, "operator": {"api": "v2"}}
    for path, value in changes.items():
        set_key(sections, path.split("."), value)
    (job,) = from_raw("dev", sections, "").jobs
    context = job_context(api=OperatorApi.V2, nodes=2)
    return [reconciled(each) for each in job_objects(job, context)]


def lasting(found: list[Manifest]) -> list[Any]:
    specs = {
        each["kind"]: each["spec"] if each["kind"] != RUNTIME else each["spec"]["template"]["spec"]
        for each in found
    }
    return [specs[kind].get(field) for kind, fields in FOR_LIFE.items() for field in fields]


def test_the_page_names_each_key_that_a_run_of_v2_keeps() -> None:
    kept = {
        key.rpartition(".")[2]
        for key, entry in {**entries.OBJECTS, **entries.ON_KIND}.items()
        if key.startswith("job.")
        and not is_refused(key.removeprefix("job."), entry)
        and held_for_life(key, entry)
    }
    (told,) = re.findall(r"If a merge changes(.*?)but not the run", PAGE.read_text(), re.DOTALL)
    assert kept == set(re.findall(r"`(\w+)`", told))


def test_another_preparation_is_another_job() -> None:
    pod = {"spec": {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}}
    assert named(on_others(OperatorApi.V1, pod=pod), "Job") != named(on_others(), "Job")
    assert named(on_others(rerun=1), "Job") == named(on_others(), "Job"), "it has been done"


def test_a_preparation_of_any_claim_has_a_name_that_pods_can_be_labelled_with() -> None:
    known = stack(**OTHERS, storage={"claim": "c" * 55}, job=JOB)
    assert len(named(known, "Job")) == BATCH_NAME_LENGTH


@pytest.mark.parametrize(
    ("api", "job", "reason"),
    [
        ("v1", {"name": "x", "runPolicy": {"ttlSecondsAfterFinished": 60}}, "ttlSecondsAfterFinished"),
        ("v1", {"name": "x" * 42}, "longer than 41"),
        ("v1", {"name": "x" * 41}, None),
        ("v2", {"name": "x" * 40}, "longer than 39"),
        ("v2", {"name": "x" * 39}, None),
        ("v2", {"name": "x" * 39, "replicas": {"worker": 10}}, "longer than 38"),
    ],
)
def test_a_job_that_no_engine_can_hold_is_not_rendered_for_any(
    api: str, job: dict[str, Any], reason: str | None
) -> None:
    known = on_others(OperatorApi(api), **job)
    assert_rendered(known, reason)


@pytest.mark.parametrize(("most", "reason"), [(2, "matrix.maxParallel"), (None, None)])
def test_jobs_that_are_to_wait_for_each_other_are_not_rendered_for_any(
    most: int | None, reason: str | None
) -> None:
    matrix = {"options": {"training.seed": [1, 2]}, "maxParallel": most}
    assert_rendered(stack(**OTHERS, job=JOB, matrix=matrix), reason)


def assert_rendered(known: Stack, reason: str | None) -> None:
    told = gitops.obstacle(known)
    assert (told is None) if reason is None else (told is not None and reason in told)
    files = folder.files(known)
    engines = [name for name in files if not folder.has_objects(name)]
    assert bool(engines) is (reason is None)
    assert len(files) > len(engines)

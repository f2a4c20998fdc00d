"""The folder that is applied after each merge, as docs/gitops.md says, on an API server without nodes."""

from __future__ import annotations

import copy
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import operators, paths, stack_plan
from infra.config import Stack
from infra.config.load import from_file, from_raw, read
from infra.config.operator import OperatorApi
from infra.objects.job_kinds import OF_API, RUNTIME
from infra.objects.labels import STACK as STACK_LABEL
from infra.objects.manifest import Manifest
from infra.review import folder, gitops
from infra.review.text import LOADER
from infra.training_operator.patches import CRD_KIND
from infra.upstream import vendored
from standins.tests.apiserver import ApiServer
from tests.e2e.waiting import HANG_S
from tests.matrix.entries import QUEUE
from tests.matrix.gitops_agent import AgentFolder
from tests.matrix.gitops_cases import Cases, job_of, jobs
from tests.matrix.gitops_cluster import KEPT, Cluster, asked, names, uids
from tests.matrix.gitops_flux import FluxFolder
from tests.matrix.judging import by_key
from tests.matrix.merged_folder import STACK, MergedFolder
from tests.matrix.played_operator import PlayedOperator
from tests.matrix.played_trainer import REFUSAL, PlayedTrainer
from tests.matrix.test_trainer_v2 import Server, controllers, server, v2  # noqa: F401 - fixtures
from tests.unit.infra.review import test_rendering
from tests.unit.infra.review.test_gitops import WAVE, applied

ENGINES = [
    pytest.param(MergedFolder, id="kubectl"),
    pytest.param(
        AgentFolder,
        id="Argo CD's engine",
        marks=pytest.mark.slow(reason="five minutes of compiling where it is not cached"),
    ),
    pytest.param(
        FluxFolder,
        id="Flux's applier",
        marks=pytest.mark.slow(reason="minutes of compiling where it is not cached"),
    ),
]


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> type[MergedFolder]:
    """What applies the commits. Each begins with a cluster without objects of the other."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(scope="module", params=OperatorApi)
def api(request: pytest.FixtureRequest) -> OperatorApi:
    """That of the stack's job."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def trainer(
    api_server: ApiServer,
    server: Server,  # noqa: F811 - the fixture: with the definitions of v2
    controllers: list[Manifest],  # noqa: F811 - the fixture
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[PlayedTrainer]:
    played = PlayedTrainer(api_server.kubeconfig, tmp_path_factory.mktemp("trainer"))
    played.start(controllers)
    yield played
    played.stop()


@pytest.fixture(scope="module")
def cluster(
    api_server: ApiServer,
    operator: PlayedOperator,
    trainer: PlayedTrainer,
    engine: type[MergedFolder],
    api: OperatorApi,
) -> Iterator[Cluster]:
    made = Cluster(api_server.kubeconfig, *OperatorApi, patience_s=HANG_S)
    yield made
    made.clear()


@pytest.fixture
def merged(
    engine: type[MergedFolder], cluster: Cluster, api_server: ApiServer, api: OperatorApi, tmp_path: Path
) -> MergedFolder:
    """A repository whose first commit has been applied."""
    made = engine(tmp_path, api_server.kubeconfig, HANG_S, {"operator.api": api.value})
    made.merge()
    made.apply()
    cluster.settled()
    return made


@pytest.fixture
def another_image() -> str:
    return "localhost:5000/trainer:2"


class TestOnAnApiServer(Cases):
    """Pods, the operator and Kubeflow Trainer are played."""

    def test_an_unrelated_commit_does_nothing(self, merged: MergedFolder, cluster: Cluster) -> None:
        before = cluster.settled()
        (merged.root / "README.md").write_text("of something else")
        merged.commit("Say something else")
        merged.apply()
        assert asked(cluster.settled()) == asked(before)

    def test_a_revert_makes_the_older_runs_job_again(self, merged: MergedFolder, cluster: Cluster) -> None:
        before = cluster.settled()
        merged.merge(**{"job.training.epochs": 3})
        merged.apply()
        between = cluster.settled()
        merged.git("revert", "--no-edit", "HEAD")
        merged.apply()
        after = cluster.settled()
        assert jobs(merged, after) == jobs(merged, before) != jobs(merged, between)
        assert uids(after, *KEPT) == uids(before, *KEPT)

    def test_a_merge_takes_the_job_to_the_other_api_and_back(
        self, merged: MergedFolder, cluster: Cluster
    ) -> None:
        (other,) = set(OF_API.values()) - {merged.kind}
        (api,) = (api for api, kind in OF_API.items() if kind is other)
        before = cluster.settled()
        merged.merge(**{"operator.api": api.value})
        merged.apply()
        between = cluster.settled()
        assert names(between, merged.kind.kind) == []
        assert names(between, other.kind) == names(before, merged.kind.kind), "it is the same run"
        merged.git("revert", "--no-edit", "HEAD")
        merged.apply()
        after = cluster.settled()
        assert names(after, other.kind) == []
        assert names(after, merged.kind.kind) == names(before, merged.kind.kind)
        assert names(after, RUNTIME) == names(before, RUNTIME)

    def test_what_another_run_would_change_is_shown_where_nothing_has_to_be_there_for_it(
        self, merged: MergedFolder
    ) -> None:
        """The webhook asks for the runtime of a TrainJob that is only tried out."""
        merged.merge(**{"job.training.epochs": 3})
        command = f"kubectl diff --server-side --force-conflicts -k stacks/rendered/{STACK}/jobs"
        is_shown = merged.kind is OF_API[OperatorApi.V1]
        told = merged.run(command, status=1 if is_shown else 2)
        assert (f"+  name: {job_of(merged)}" in told, REFUSAL in told) == (is_shown, not is_shown)


def built(top: Path) -> list[dict[str, Any]]:
    """What `kubectl kustomize` makes of a stack's folder."""
    done = subprocess.run(["kubectl", "kustomize", top], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return list(yaml.load_all(done.stdout, Loader=LOADER))


def ensure_builds(top: Path, known: Stack) -> list[dict[str, Any]]:
    """The plan's objects as engines apply them, with the CRDs of what the stack brings; what was built."""
    objects = built(top)
    wanted, found = applied(known), by_key(objects)
    crds = {name: found.pop(name) for name in [*found] if name.startswith(f"{CRD_KIND}//")}
    assert found == by_key(each for objects in wanted.values() for each in objects)
    for group in (gitops.KEPT, gitops.JOBS):
        assert by_key(built(top / group)) == by_key(wanted[group])
    planned = by_key(operators.manifests(known, stack_plan.reviewed(known)))
    registered = {name: each for name, each in planned.items() if name.startswith(f"{CRD_KIND}//")}
    assert crds.keys() == registered.keys()
    for name, crd in crds.items():
        ours = copy.deepcopy(registered[name])
        del ours["metadata"]["labels"][STACK_LABEL]  # each stack that registers it puts its own there
        ours["metadata"].setdefault("annotations", {}).update(gitops.NEVER_PRUNED | gitops.LONG)
        assert crd == ours
        assert gitops.NEVER_PRUNED.keys() <= crd["metadata"]["annotations"].keys()
        assert "Prune=false,Delete=false" in crd["metadata"]["annotations"]["argocd.argoproj.io/sync-options"]
    return objects


def ensure_renders(tmp_path: Path, name: str, **sections: Any) -> tuple[Path, list[dict[str, Any]]]:
    """Write the rendering of a stack whose file has other sections, and hold it to the plan.

    Returns its folder and what it builds.
    """
    known = from_raw(name, {**read(paths.stack_file(name)), **sections}, name)
    shutil.copytree(vendored.FOLDER, tmp_path / folder.UPSTREAM)
    folder.write(tmp_path / "stacks", name, folder.files(known))
    top = tmp_path / "stacks" / folder.RENDERED / name
    return top, ensure_builds(top, known)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("path", test_rendering.STACKS, ids=lambda path: path.stem)
def test_a_committed_kustomization_builds_the_plans_objects(path: Path) -> None:
    """All jobs would go with a CRD that an engine prunes."""
    known = from_file(path)
    ensure_builds(folder.STACKS / folder.RENDERED / known.name, known)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["dev", "existing"])
def test_a_kustomization_of_v2_builds_the_runtime_before_its_job(name: str, tmp_path: Path) -> None:
    operator = {**read(paths.stack_file(name)).get("operator", {}), "api": "v2"}
    top, objects = ensure_renders(tmp_path, name, operator=operator)
    wanted = [RUNTIME, OF_API[OperatorApi.V2].kind]
    assert [each["kind"] for each in objects][-2:] == wanted
    assert [each["kind"] for each in built(top / gitops.JOBS)][-2:] == wanted


@pytest.mark.parametrize("api", OperatorApi)
def test_a_kustomization_of_jobs_in_a_queue_builds_them_without_suspend(
    api: OperatorApi, tmp_path: Path
) -> None:
    """With an encrypted variable, too, whose Secret is kept, and several jobs in one file."""
    job = {"name": "mnist", "queue": "team-a", "env": {"WORD": {"secure": "v1:first:cipher"}}}
    matrix = {"options": {"training.seed": [1, 2]}}
    ensure_renders(tmp_path, "dev", operator={"api": api.value}, job=job, matrix=matrix)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("api", OperatorApi)
@pytest.mark.parametrize("name", ["dev", "existing"])
def test_a_kustomization_with_a_quota_builds_it_for_the_wave_after_kueue(
    api: OperatorApi, name: str, tmp_path: Path
) -> None:
    """On a cluster of others Kueue is there, and the quota alone is the stack's."""
    sections = read(paths.stack_file(name))
    asked = {**sections.get("operator", {}), "api": api.value, "queue": "kueue"}
    cluster = {**sections.get("cluster", {}), "queue": QUEUE}
    _, objects = ensure_renders(tmp_path, name, operator=asked, cluster=cluster)
    waves = {each["kind"]: each["metadata"].get("annotations", {}).get(WAVE) for each in objects}
    assert {waves[each] for each in ("ResourceFlavor", "ClusterQueue", "LocalQueue")} == {"1"}
    assert waves.get("Deployment") is None

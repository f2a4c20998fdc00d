"""When a change of section `operator` would take jobs away, others' or the stack's own."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from infra import decision, dependents, operators
from infra.clusters import selection
from infra.clusters.discovery import read_contents
from infra.config import ConfigError, Stack
from infra.config.operator import Install, OperatorApi
from infra.objects import job_kinds
from infra.objects.adoption import Ownership
from infra.objects.cluster_api import path
from infra.objects.job_kinds import DEFINITION, OF_API, PYTORCHJOB, SHARED
from infra.objects.kinds import CRD, NAMESPACE, Kind, title
from infra.objects.manifest import Manifest
from infra.objects.stack_state import StackState
from infra.training_operator.plan import Plan, plan
from tests.unit.infra.objects.played_api import Request, listed, look, play
from tests.unit.infra.samples import stack

APIS = list(OperatorApi)
KINDS = dependents.EVERY
EXISTING = {"kind": "existing"}


def held(crds: Collection[str], *jobs: str) -> StackState:
    """The state of a stack that has made these definitions, and these jobs."""
    return StackState(objects=frozenset([*(f"{DEFINITION}/{each}" for each in crds), *jobs]))


def of_api(api: OperatorApi) -> StackState:
    """The state of a stack that has installed the operator of `api`."""
    return held(OF_API[api].crds)


OWN = ["PyTorchJob/kubeflow/ours", "TrainJob/kubeflow/ours"]
QUEUES = [each.crd for each in job_kinds.QUEUE_KINDS]
WITH_KUEUE = held([*PYTORCHJOB.crds, *QUEUES])
WITH_GANGS = held([*PYTORCHJOB.crds, *(each.crd for each in job_kinds.GANG_KINDS)])
WHOLE = Plan(crd=True, operator=True, namespaces=())
GIVEN = Plan(crd=False, operator=False, namespaces=())


class Cluster:
    """Holds a job of another team's, and what it has made, for each of `kinds`; somebody has defined them all again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kinds: Collection[Kind] = KINDS) -> None:
        self.kinds = kinds
        self.asked: list[str] = []
        play(monkeypatch, self.answer)

    def answer(self, request: Request) -> object:
        if request.path == path(CRD):
            name = request.query["fieldSelector"].removeprefix("metadata.name=")
            return listed({"metadata": {"name": name, "uid": f"uid-{name}"}})
        if request.path.startswith(f"{path(CRD)}/"):
            return {"metadata": {"name": request.name, "uid": "another"}}
        if request.path.startswith("/apis/") and request.path.count("/") == 3:
            return {"resources": [{"name": each.plural} for each in self.kinds]}
        for kind in KINDS:
            if request.path == path(kind):
                self.asked.append(kind.kind)
                return listed(*self.jobs(kind) if kind in self.kinds else [])
        return 404 if request.path.startswith(f"{path(NAMESPACE)}/") else listed()

    @staticmethod
    def jobs(kind: Kind) -> list[Manifest]:
        """Others', which a controller of theirs has made, and what the stack's own jobs have brought along."""
        trial = {"apiVersion": "kubeflow.org/v1beta1", "kind": "Trial", "name": "trial"}
        job = {"apiVersion": PYTORCHJOB.api_version, "kind": PYTORCHJOB.kind, "name": "ours"}
        metadata = {"name": "theirs", "namespace": "team", "ownerReferences": [trial]}
        ours = {"name": "ours", "namespace": "kubeflow", "ownerReferences": [job]}
        return [{"metadata": metadata}, {"metadata": ours}]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


def ensure(asking: Stack, state: StackState, planned: Plan = WHOLE) -> None:
    own = StackState(objects=state.objects | set(OWN))
    titles = {title(each) for each in operators.manifests(asking, planned)}
    decision.ensure_free(asking, look(), own, titles)


def asking(**operator: Any) -> Stack:
    return stack(operator=operator, cluster=EXISTING, image={"reference": "x:1", "unpinned": True})


@pytest.mark.parametrize(("before", "after"), [APIS, APIS[::-1]])
def test_others_jobs_are_named_with_the_way_out(
    cluster: Cluster, before: OperatorApi, after: OperatorApi
) -> None:
    text = (
        rf"(?s)trainstack:operator.api = .*{OF_API[before].kind}/team/theirs.*fix: delete these objects once"
    )
    with pytest.raises(ConfigError, match=text):
        ensure(asking(api=after.value), of_api(before))
    assert cluster.asked == [each.kind for each in SHARED if each.crd in OF_API[before].crds]


@pytest.mark.parametrize("api", APIS)
def test_definitions_that_stay_or_are_somebody_elses_are_not_asked_about(
    cluster: Cluster, api: OperatorApi
) -> None:
    ensure(asking(api=api.value), of_api(api))
    ensure(asking(api=api.value), StackState())
    ensure(asking(api=api.value, install="never"), StackState(), GIVEN)
    assert cluster.asked == []


def test_nobody_is_hurt(monkeypatch: pytest.MonkeyPatch) -> None:
    Cluster(monkeypatch, [])
    ensure(asking(api="v2"), of_api(OperatorApi.V1))


def test_others_gangs_keep_the_definitions_of_an_earlier_release(cluster: Cluster) -> None:
    with pytest.raises(
        ConfigError,
        match=r"(?s)operator.gang = \(removed\).*PodGroup/team/theirs.*fix: delete.*the earlier release",
    ):
        ensure(asking(), WITH_GANGS)
    assert cluster.asked == [each.kind for each in job_kinds.GANG_KINDS]


def test_a_scheduler_of_an_earlier_release_goes_where_nobody_else_has_gangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Cluster(monkeypatch, SHARED)
    ensure(asking(), WITH_GANGS)


def test_others_queues_keep_kueue(cluster: Cluster) -> None:
    with pytest.raises(
        ConfigError, match=r"(?s)trainstack:operator.queue = 'none'.*ClusterQueue.*fix: delete"
    ):
        ensure(asking(), WITH_KUEUE)
    assert cluster.asked == [each.kind for each in job_kinds.QUEUE_KINDS]


def test_kueue_that_stays_is_not_asked_about(cluster: Cluster) -> None:
    stays = Plan(crd=True, operator=True, namespaces=(), kueue_crds=True, kueue=True)
    ensure(asking(queue="kueue"), WITH_KUEUE, stays)
    assert cluster.asked == []


@pytest.mark.parametrize("others", [True, False])
@pytest.mark.parametrize("api", APIS)
def test_never_is_refused_where_the_definition_of_its_own_jobs_would_go(
    api: OperatorApi, others: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    Cluster(monkeypatch, KINDS if others else [])
    kind = OF_API[api].kind
    text = rf"(?s)trainstack:operator.install = 'never'.*{kind}.*fix: .*install: auto.*make down STACK=dev"
    with pytest.raises(ConfigError, match=text) as refused:
        ensure(asking(api=api.value, install="never"), of_api(api), GIVEN)
    assert (f"{kind}/team/theirs" in str(refused.value)) is others


def test_never_leaves_kueue_with_others_queues(cluster: Cluster) -> None:
    with pytest.raises(ConfigError, match=r"(?s)trainstack:operator.install = 'never'.*Workload/team/theirs"):
        ensure(asking(install="never", queue="kueue"), held(QUEUES), GIVEN)


@pytest.mark.parametrize("install", Install)
@pytest.mark.parametrize("api", APIS)
def test_no_way_to_install_deletes_a_definition_unasked(
    api: OperatorApi, install: Install, cluster: Cluster
) -> None:
    """As the program does it, from what the cluster says on."""
    state, configured = of_api(api), asking(api=api.value, install=install.value)
    is_ours = Ownership(state, "0" * 16, own_cluster=False).is_ours
    contents = read_contents(look(), is_ours, selection.question(configured, is_ours))
    planned = plan(configured, contents)
    if planned.crd:
        ensure(configured, state, planned)
        return
    with pytest.raises(ConfigError, match=r"trainstack:operator.install = 'never'"):
        ensure(configured, state, planned)

"""Kueue as we install it, and a stack's quota: what is found, used, installed, registered and refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from infra import decision, dependents, operators, paths, stack_plan
from infra.clusters.discovery import ClusterContents, Question, read_contents
from infra.config import ConfigError, Stack
from infra.config.operator import KUEUE_NAMESPACE, Install, OperatorApi
from infra.kueue import patches, quota
from infra.objects.cluster_api import path
from infra.objects.job_kinds import (
    CLUSTER_QUEUE,
    FLAVOR,
    KUEUE,
    LOCAL_QUEUE,
    PRIORITY_CLASS,
    PYTORCHJOB,
    WORKLOAD,
)
from infra.objects.kinds import CRD, DEPLOYMENT, Kind, title
from infra.objects.labels import STACK
from infra.objects.manifest import Manifest
from infra.objects.stack_state import StackState
from infra.review import consequences, folder
from infra.training_operator.patches import CRD_KIND
from infra.training_operator.plan import Plan, plan
from infra.upstream import vendored
from tests.matrix.entries import QUEUE
from tests.unit.infra.objects.played_api import Request, listed, look, play
from tests.unit.infra.samples import IMAGE, stack

THEIRS: dict[str, Any] = {"crd": True, "operator": True, "namespaces": frozenset({"kubeflow"})}


def asking(**sections: Any) -> Stack:
    given = {"queue": "kueue", **sections.pop("operator", {})}
    cluster = {"queue": QUEUE, **sections.pop("cluster", {})}
    return stack(operator=given, cluster=cluster, **sections)


@pytest.fixture(scope="module", params=OperatorApi)
def api(request: pytest.FixtureRequest) -> OperatorApi:
    return OperatorApi(request.param)


@pytest.fixture(scope="module")
def objects(api: OperatorApi) -> list[Manifest]:
    return patches.patched(vendored.objects(patches.PROJECT), "dev", api)


def of_kind(objects: list[Manifest], kind: str) -> list[Manifest]:
    return [each for each in objects if each["kind"] == kind]


def test_the_definitions_come_first_and_the_namespace_is_upstreams(objects: list[Manifest]) -> None:
    kinds = [each["kind"] == CRD_KIND for each in objects]
    assert kinds == sorted(kinds, reverse=True)
    places = {each["metadata"].get("namespace") for each in objects}
    assert places == {None, KUEUE_NAMESPACE}, "nothing in kube-system"
    assert all(each["metadata"]["labels"][STACK] == "dev" for each in objects)
    assert of_kind(objects, "Namespace") == []


def test_kueue_handles_the_jobs_of_both_apis_with_either(objects: list[Manifest]) -> None:
    """After a change of the API it has to release the Workloads of the old one's jobs."""
    (configured,) = of_kind(objects, "ConfigMap")
    settings = yaml.safe_load(configured["data"][patches.FILE])
    wanted = ["kubeflow.org/pytorchjob", "trainer.kubeflow.org/trainjob"]
    assert settings["integrations"] == {"frameworks": wanted}
    upstreams = yaml.safe_load(
        of_kind(vendored.objects(patches.PROJECT), "ConfigMap")[0]["data"][patches.FILE]
    )
    assert set(wanted) <= set(upstreams["integrations"]["frameworks"])


def test_no_other_object_of_the_cluster_waits_for_kueue(objects: list[Manifest], api: OperatorApi) -> None:
    hooks = [
        each
        for kind in ("Mutating", "Validating")
        for each in of_kind(objects, f"{kind}WebhookConfiguration")
    ]
    asked = {
        (group, resource)
        for each in hooks
        for hook in each["webhooks"]
        for rule in hook["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    jobs = {(each.group, each.plural) for each in patches.admitted(api)}
    assert {pair for pair in asked if pair[0] != KUEUE} == jobs
    assert of_kind(objects, "APIService") == [], (
        "one that is away would keep each namespace from being deleted"
    )
    assert patches.VISIBILITY not in json.dumps([each["metadata"]["name"] for each in objects])


def test_roles_for_users_are_left_to_the_clusters_owner(objects: list[Manifest]) -> None:
    roles = {each["metadata"]["name"] for each in of_kind(objects, "ClusterRole")}
    assert roles == {each["roleRef"]["name"] for each in of_kind(objects, "ClusterRoleBinding")}


def test_another_configuration_or_api_starts_kueue_again() -> None:
    """Kueue 0.17.0 refuses every TrainJob for good if it started before their definition came."""
    upstream = of_kind(vendored.objects(patches.PROJECT), "Deployment")[0]
    pods = [
        str(patches.deployment(upstream, {"data": {patches.FILE: text}}, api)["spec"]["template"]["metadata"])
        for text in ("a", "b")
        for api in OperatorApi
    ]
    assert len(set(pods)) == 4


@pytest.mark.parametrize("api", OperatorApi)
def test_nothing_of_it_is_there_unless_it_is_asked_for(api: OperatorApi) -> None:
    plain = stack(operator={"api": api.value})
    planned = plan(plain, ClusterContents())
    assert (planned.kueue, planned.kueue_crds, KUEUE_NAMESPACE in planned.namespaces) == (False, False, False)
    assert KUEUE_NAMESPACE not in json.dumps(operators.manifests(plain, planned))


@pytest.mark.parametrize("api", OperatorApi)
def test_an_empty_cluster_gets_it(api: OperatorApi) -> None:
    planned = plan(asking(operator={"api": api.value}), ClusterContents())
    assert (planned.kueue, planned.kueue_crds) == (True, True)
    assert KUEUE_NAMESPACE in planned.namespaces


@pytest.mark.parametrize("install", [Install.AUTO, Install.NEVER])
def test_a_kueue_that_is_there_is_used(install: Install) -> None:
    there = ClusterContents(**THEIRS, kueue=True, kueue_crds=True)
    planned = plan(asking(operator={"install": install.value}), there)
    assert (planned.kueue, planned.kueue_crds) == (False, False)
    assert KUEUE_NAMESPACE not in planned.namespaces
    kinds = [each["kind"] for each in operators.manifests(asking(), planned)]
    assert kinds == [FLAVOR.kind, PRIORITY_CLASS.kind, CLUSTER_QUEUE.kind, LOCAL_QUEUE.kind]


def test_definitions_that_are_there_without_kueue_are_left_as_they_are() -> None:
    planned = plan(asking(), ClusterContents(kueue_crds=True))
    assert (planned.kueue, planned.kueue_crds) == (True, False)
    found = [each["metadata"]["name"] for each in of_kind(operators.manifests(asking(), planned), CRD_KIND)]
    assert found == [PYTORCHJOB.crd]


def test_what_may_not_be_installed_has_to_be_there() -> None:
    asked = asking(operator={"install": "never"})
    with pytest.raises(
        ConfigError, match=r"(?s)operator\.queue = 'kueue'.*no Kueue.*fix: write `install: auto`"
    ):
        plan(asked, ClusterContents(**THEIRS))
    assert not plan(asked, ClusterContents(problem="does not answer")).kueue, "never is never"


def test_gpus_are_counted_by_what_the_jobs_call_them() -> None:
    flavor = {"nodeLabels": {"gpu": "a"}, "nominalQuota": {"cpu": 8, "memory": "32Gi", "gpu": 2}}
    job = {"name": "x", "queue": "training", "resources": {"gpu": 1, "gpuResource": "amd.com/gpu"}}
    asked = asking(cluster={"queue": {"localQueues": ["training"], "flavors": [flavor]}}, job=job)
    labels, queue, _ = quota.manifests(asked, ())
    assert labels["spec"] == {"nodeLabels": {"gpu": "a"}}
    (group,) = queue["spec"]["resourceGroups"]
    assert {"name": "amd.com/gpu", "nominalQuota": "2"} in group["flavors"][0]["resources"]
    assert group["coveredResources"] == ["cpu", "memory", "amd.com/gpu"]


def test_a_job_that_may_borrow_enough_is_taken() -> None:
    flavors = [{"nominalQuota": {"cpu": 1, "memory": "32Gi"}}]
    asked = {"queue": {"localQueues": ["training"], "cohort": "all", "flavors": flavors}}
    job = {"name": "x", "queue": "training", "resources": {"cpu": 8, "requests": {"cpu": 5}}}
    assert asking(cluster=asked, job=job).jobs
    assert asking(job={**job, "queue": "of-somebody-else"}).jobs, "whose quota nobody knows"


def test_a_review_tells_of_kueue_and_the_quota() -> None:
    asked = asking()
    assert folder.projects_of(asked) == ("training-operator", "kueue")
    assert any("kueue-0.17.0" in each for each in folder.definitions(asked))
    assert folder.projects_of(stack()) == ("training-operator",)
    assert consequences.version_changes(asked, paths.ROOT) == []
    stack_plan.of(asked, plan(asked, ClusterContents()))


class Cluster:
    """A cluster with `objects`; with `forbidden`, they may not be looked at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *objects: Manifest, forbidden: bool = False) -> None:
        self.forbidden = forbidden
        self.objects: dict[str, list[Manifest]] = {}
        for each in objects:
            self.objects.setdefault(each["kind"], []).append(each)
        play(monkeypatch, self.answer)

    def answer(self, request: Request) -> object:
        for kind in (CRD, DEPLOYMENT, FLAVOR, PRIORITY_CLASS, CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD):
            there = self.objects.get(kind.kind, [])
            for place in {path(kind), *(path(kind, each["metadata"].get("namespace", "")) for each in there)}:
                if request.path == place:
                    return 403 if self.forbidden else listed(*there)
                named = [each for each in there if request.path == f"{place}/{each['metadata']['name']}"]
                if named:
                    return 403 if self.forbidden else named[0]
        if request.path == f"/apis/{KUEUE}/{CLUSTER_QUEUE.version}":
            return {"resources": [{"name": CLUSTER_QUEUE.plural}]}
        return "ok" if request.path == "/readyz" else 404


def made(kind: Kind, name: str, namespace: str = "", **content: Any) -> Manifest:
    metadata = {"name": name, "uid": "u", **({"namespace": namespace} if namespace else {})}
    return {"kind": kind.kind, "metadata": metadata, **content}


FLAVORS = frozenset({"ResourceFlavor/default-flavor", "WorkloadPriorityClass/urgent"})


def test_what_somebody_else_has_made_is_found_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    Cluster(
        monkeypatch,
        made(DEPLOYMENT, "kueue", "kueue-system"),
        made(CRD, CLUSTER_QUEUE.crd),
        made(FLAVOR, "default-flavor"),
    )
    question = Question(operator=False, nodes=False, kueue=True, shared=FLAVORS)
    found = read_contents(look(), lambda _: False, question)
    assert (found.kueue, found.kueue_crds) == (True, True)
    assert found.shared == {"ResourceFlavor/default-flavor"}
    assert title(quota.manifests(asking(), found.shared)[0]) == "WorkloadPriorityClass/urgent"
    ours = read_contents(look(), lambda _: True, question)
    assert (ours.kueue, ours.kueue_crds, ours.shared) == (False, False, frozenset())


def test_a_user_who_may_not_look_is_taken_to_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    Cluster(monkeypatch, made(FLAVOR, "default-flavor"), forbidden=True)
    found = read_contents(
        look(), lambda _: False, Question(operator=False, nodes=False, kueue=True, shared=FLAVORS)
    )
    assert (found.kueue, found.kueue_crds) == (True, True)
    assert found.shared == {"ResourceFlavor/default-flavor"}, "it is somebody else's, unless the state has it"


def test_one_of_the_stacks_own_stays_its_own_if_the_user_may_not_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise it would drop out of the plan, and the update would delete it."""
    Cluster(monkeypatch, made(FLAVOR, "default-flavor"), forbidden=True)
    question = Question(operator=False, nodes=False, shared=FLAVORS)
    assert read_contents(look(), lambda _: True, question).shared == frozenset()


OF_OURS = {"clusterQueue": "trainstack-dev"}
ADMITTED = {"status": {"admission": OF_OURS}}
OTHERS = {
    "a LocalQueue of the ClusterQueue": (
        [made(LOCAL_QUEUE, "guests", "b", spec=OF_OURS)],
        "LocalQueue/b/guests",
    ),
    "a workload that it has admitted": (
        [made(WORKLOAD, "w", "b", spec={"queueName": "guests"}, **ADMITTED)],
        "Workload/b/w",
    ),
    "a workload that waits in the queue": (
        [made(WORKLOAD, "w", "kubeflow", spec={"queueName": "training"})],
        "Workload/kubeflow/w",
    ),
    "a ClusterQueue with the flavor": (
        [
            made(
                CLUSTER_QUEUE,
                "b",
                spec={"resourceGroups": [{"flavors": [{"name": "default-flavor", "resources": []}]}]},
            )
        ],
        "ClusterQueue/b",
    ),
}
OWN = [
    title(each) for each in quota.manifests(stack(operator={"queue": "kueue"}, cluster={"queue": QUEUE}), ())
]
NOTHING = Plan(crd=False, operator=False, namespaces=())


@pytest.mark.parametrize(("objects", "name"), OTHERS.values(), ids=OTHERS)
def test_what_others_have_in_the_queues_keeps_them(
    objects: list[Manifest], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For `make down`, which leaves them, and for an update, which is refused."""
    Cluster(monkeypatch, *objects, *_own(objects))
    assert dependents.users(look(), OWN)["queues"] == [name]
    state = StackState(objects=frozenset(OWN))
    with pytest.raises(
        ConfigError,
        match=rf"(?s)trainstack:cluster\.queue = \(changed\).*{name}.*fix: delete these objects once",
    ):
        decision.ensure_free(stack(operator={"queue": "kueue"}), look(), state, ())
    planned = {title(each) for each in operators.parts(asking(), NOTHING)[operators.QUOTA]}
    decision.ensure_free(asking(), look(), state, planned)


def _own(others: list[Manifest]) -> list[Manifest]:
    """The stack's own objects of kinds that others have none of."""
    kinds = {each["kind"] for each in others}
    return [each for each in quota.manifests(asking(), ()) if each["kind"] not in kinds]


@pytest.mark.parametrize(
    "objects",
    [
        [made(LOCAL_QUEUE, "theirs", "b", spec={"clusterQueue": "another"})],
        [made(WORKLOAD, "w", "b", spec={"queueName": "training"})],
        [
            made(
                WORKLOAD,
                "w",
                "kubeflow",
                spec={"queueName": "training"},
                status={"conditions": [{"type": "Finished", "status": "True"}]},
            )
        ],
        [made(CLUSTER_QUEUE, "b", spec={})],
    ],
    ids=["another ClusterQueue", "another namespace", "a workload that has ended", "no quota"],
)
def test_what_does_not_need_the_queues_does_not_keep_them(
    objects: list[Manifest], monkeypatch: pytest.MonkeyPatch
) -> None:
    Cluster(monkeypatch, *objects, *_own(objects))
    assert dependents.users(look(), OWN)["queues"] == []


def test_a_stack_elsewhere_renders_its_quota() -> None:
    there = asking(cluster={"kind": "existing"}, image={"reference": IMAGE})
    titles = [title(each) for each in operators.manifests(there, stack_plan.reviewed(there))]
    assert titles == OWN
    assert stack_plan.unseen(there, stack_plan.of(there, plan(there, stack_plan.ASSUMED))) == []
    lacking = stack_plan.unseen(there, stack_plan.of(there, plan(there, ClusterContents(**THEIRS))))
    assert lacking[0] == f"Namespace/{KUEUE_NAMESPACE}"
    assert set(lacking).isdisjoint(OWN)

"""A user with rights in one namespace trains, given a claim, an image and the operator: asked of a real API server.

The server's audit log tells what was asked for. Nothing of the whole cluster is, and nothing that is refused.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config

from infra.clusters.discovery import ClusterContents, Question, read_contents
from infra.config import cluster_access
from infra.config.load import from_file
from infra.config.operator import OperatorApi
from infra.inspection import inspect
from infra.objects import informer
from infra.objects.api import ApiAddress
from infra.objects.informer import Selection, shared
from infra.objects.job_kinds import OF_API, JobKind
from infra.objects.kinds import EVENT, POD, Kind
from infra.objects.look import Look
from infra.release_volumes import Releasing
from standins.tests.apiserver import ApiServer
from tests.e2e.waiting import wait_until
from tests.matrix import service_account
from tests.matrix.played_operator import PlayedOperator
from tests.matrix.project import AppliedProject
from tests.matrix.test_gitops import trainer  # noqa: F401 - a fixture
from tests.matrix.test_trainer_v2 import controllers, server, v2  # noqa: F401 - its fixtures
from tests.matrix.verbs import VERBS
from tests.preview.project import ROOT
from toolchain.operating import status
from toolchain.operating.state import Access

NAMESPACE, USER, CLAIM = "one-namespace", "trainer", "given"
ROW = re.compile(r"^\| (`[a-z0-9`./, -]+`) \| ([a-z, ]+) \| (.+) \|$", re.MULTILINE)
OF_ONE_API = "`operator.api` "


def rules(api: OperatorApi) -> list[dict[str, Any]]:
    """The rights that docs/security.md lists for a stack of this API."""
    page = (ROOT / "docs" / "security.md").read_text().partition("## A user with rights in one namespace")[2]
    made = []
    for objects, verbs, purpose in ROW.findall(page.partition("\n## ")[0]):
        if purpose.startswith(OF_ONE_API) and not purpose.startswith(OF_ONE_API + api):
            continue
        named = [each.strip("` ").partition(".") for each in objects.split(",")]
        names, groups = [each[0] for each in named], sorted({each[2] for each in named})
        made.append({"apiGroups": groups, "resources": names, "verbs": verbs.split(", ")})
    return made


RULES = rules(OperatorApi.V1)
TENANT: dict[str, Any] = {
    "cluster.namespace": NAMESPACE,
    "storage": {"kind": "claim", "claim": CLAIM},
}
LIMITED = {
    **TENANT,
    "cluster.quota": {"pods": 8},
    "cluster.limitRange": {"memoryRatio": 4},
    "job.egress": [{"port": 443}],
}
"""With everything that needs more rights."""


@pytest.fixture(scope="module")
def admin(api_server: ApiServer, operator: PlayedOperator) -> Iterator[Any]:
    """What the administrator gives: namespace, rights and a claim with a volume."""
    connection: Any = config.new_client_from_config(str(api_server.kubeconfig))  # type: ignore[no-untyped-call]
    core: Any = client.CoreV1Api(connection)
    rights: Any = client.RbacAuthorizationV1Api(connection)
    core.create_namespace({"metadata": {"name": NAMESPACE}})
    core.create_namespaced_service_account(NAMESPACE, {"metadata": {"name": USER}})
    rights.create_namespaced_role(NAMESPACE, {"metadata": {"name": USER}, "rules": RULES})
    subject = {"kind": "ServiceAccount", "name": USER, "namespace": NAMESPACE}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": USER}
    binding = {"metadata": {"name": USER}, "roleRef": reference, "subjects": [subject]}
    rights.create_namespaced_role_binding(NAMESPACE, binding)
    common = {"storageClassName": "given", "accessModes": ["ReadWriteMany"]}
    volume = {
        **common,
        "capacity": {"storage": "1Gi"},
        "claimRef": {"namespace": NAMESPACE, "name": CLAIM},
        "nfs": {"server": "nfs.example", "path": "/"},
    }
    core.create_persistent_volume({"metadata": {"name": CLAIM}, "spec": volume})
    claim = {**common, "resources": {"requests": {"storage": "1Gi"}}}
    core.create_namespaced_persistent_volume_claim(NAMESPACE, {"metadata": {"name": CLAIM}, "spec": claim})
    yield core
    core.delete_namespace(NAMESPACE)
    core.delete_persistent_volume(CLAIM)


@pytest.fixture(scope="module")
def tenant(admin: Any, api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> ApiAddress:
    folder = tmp_path_factory.mktemp("tenant")
    file = service_account.kubeconfig(api_server.kubeconfig, admin, NAMESPACE, USER, folder)
    return ApiAddress(str(file))


@pytest.fixture(scope="module")
def project(
    tenant: ApiAddress, api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AppliedProject]:
    made = AppliedProject(tmp_path_factory.mktemp("one-namespace"), Path(str(tenant.kubeconfig)))
    made.look_at(api_server.kubeconfig)
    yield made
    made.destroy()


def requests(api_server: ApiServer, since: int) -> list[dict[str, Any]]:
    """What the tenant has asked for after the first `since` bytes of the audit log."""
    lines = api_server.audit.read_bytes()[since:].decode().splitlines()
    asked = [json.loads(line) for line in lines]
    return [each for each in asked if each["user"]["username"].endswith(f":{NAMESPACE}:{USER}")]


def written(request: dict[str, Any]) -> str:
    target = request.get("objectRef") or {}
    where = target.get("namespace") or "the whole cluster"
    return f"{request['verb']} {target.get('resource', request['requestURI'])} in {where}"


def of_the_cluster(asked: list[dict[str, Any]]) -> list[str]:
    """The requests for objects that are not in the tenant's namespace."""
    objects = [each for each in asked if "objectRef" in each]
    return sorted({written(each) for each in objects if each["objectRef"].get("namespace") != NAMESPACE})


def forbidden(asked: list[dict[str, Any]]) -> list[str]:
    return sorted({written(each) for each in asked if each["responseStatus"]["code"] == 403})


def test_what_a_tenant_may_not_list_is_taken_to_be_there(tenant: ApiAddress) -> None:
    question = Question(frozenset({NAMESPACE, "kubeflow"}))
    found = read_contents(Look(tenant, print), lambda _: False, question)
    assert found == ClusterContents(
        namespaces=frozenset({NAMESPACE, "kubeflow"}),
        crd=True,
        operator=True,
        gang_scheduler=True,
        offered=None,
    )


def test_an_administrator_sees_what_is_there(admin: Any, api_server: ApiServer) -> None:
    question = Question(frozenset({NAMESPACE, "nowhere"}))
    look = Look(ApiAddress(str(api_server.kubeconfig)), print)
    found = read_contents(look, lambda _: False, question)
    assert (found.problem, found.crd, found.operator) == ("", True, True)
    assert found.offered is not None, "other tests on this server may have made nodes with GPUs"
    assert NAMESPACE in found.namespaces
    assert "nowhere" not in found.namespaces


def test_nothing_is_asked_for_but_in_the_namespace(
    project: AppliedProject, tenant: ApiAddress, api_server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = api_server.audit.stat().st_size
    before: Any = project.core.read_namespace(NAMESPACE)
    project.up(**TENANT)
    outputs = project.outputs()
    assert outputs["jobStatus"] == "Succeeded"
    project.up("--expect-no-changes", **TENANT)
    monkeypatch.setenv("KUBECONFIG", str(tenant.kubeconfig))
    stack = from_file(Path(project.stack_file))
    Releasing(stack, tenant, print).run()
    assert inspect(stack, outputs, print) == []
    project.configured(**TENANT)
    project.plant("job.env.TOKEN", "planted")
    project.apply()
    project.destroy()
    asked = requests(api_server, began)
    assert len(asked) > 20, "the audit log has the tenant's requests"
    assert of_the_cluster(asked) == []
    assert forbidden(asked) == []
    watched = {written(each) for each in asked if each["verb"] == "watch"}
    assert watched <= {
        f"watch {kind} in {NAMESPACE}" for kind in ("pytorchjobs", "pods", "events", "secrets")
    }
    after: Any = project.core.read_namespace(NAMESPACE)
    assert (after.metadata.uid, after.metadata.labels) == (before.metadata.uid, before.metadata.labels)
    claim: Any = project.core.read_namespaced_persistent_volume_claim(CLAIM, NAMESPACE)
    assert claim.metadata.deletion_timestamp is None


@pytest.fixture(params=OperatorApi)
def api(request: pytest.FixtureRequest, admin: Any) -> Iterator[OperatorApi]:
    """That of the stack's job. The user has its rights, and not those of the other."""
    give(request.param, admin)
    yield request.param
    give(OperatorApi.V1, admin)


def give(api: OperatorApi, admin: Any) -> None:
    rights: Any = client.RbacAuthorizationV1Api(admin.api_client)
    reviews: Any = client.AuthorizationV1Api(admin.api_client)
    rights.patch_namespaced_role(USER, NAMESPACE, {"rules": rules(api)})

    def may_list(kind: JobKind) -> bool:
        asked = {"namespace": NAMESPACE, "verb": "list", "group": kind.group, "resource": kind.plural}
        user = f"system:serviceaccount:{NAMESPACE}:{USER}"
        review = {"spec": {"user": user, "resourceAttributes": asked}}
        return bool(reviews.create_namespaced_local_subject_access_review(NAMESPACE, review).status.allowed)

    wait_until("the rights are given", lambda: [each for each in OF_API if may_list(OF_API[each])] == [api])


@pytest.mark.sampled(1)
def test_each_command_gets_by_with_the_rights_that_are_listed(
    api: OperatorApi,
    project: AppliedProject,
    request: pytest.FixtureRequest,
    api_server: ApiServer,
) -> None:
    """Of a stack with everything that needs a right. `make status` asks for objects of all namespaces first."""
    if api is OperatorApi.V2:
        request.getfixturevalue("trainer")
    began = api_server.audit.stat().st_size
    secret = {"job.env": {"TOKEN": {"secure": True}}}
    for verb, quota in (
        *(("preview", 8), ("up", 8), ("up", 9), ("preview", 9)),
        *(("drift", 9), ("status", 9), ("down", 9)),
    ):
        project.configured(**LIMITED, **secret, **{"cluster.quota.pods": quota, "operator.api": api.value})
        since = api_server.audit.stat().st_size
        ended = VERBS[verb](project)
        assert ended.status == 0, f"{verb}: {ended.told}"
        asked = requests(api_server, since)
        if verb != "status":
            assert (forbidden(asked), of_the_cluster(asked)) == ([], []), verb
    made = {written(each) for each in requests(api_server, began) if each["verb"] == "create"}
    wanted = ("resourcequotas", "limitranges", "networkpolicies", "secrets", OF_API[api].plural)
    assert made >= {f"create {each} in {NAMESPACE}" for each in wanted}


def test_who_lets_the_stack_look_for_an_operator_is_refused_two_lists_and_goes_on(
    project: AppliedProject, api_server: ApiServer
) -> None:
    began = api_server.audit.stat().st_size
    project.up(**TENANT, **{"operator.install": "auto"})
    assert project.outputs()["jobStatus"] == "Succeeded"
    refused = forbidden(requests(api_server, began))
    assert refused == [
        "get namespaces in kubeflow",
        "list customresourcedefinitions in the whole cluster",
        "list deployments in the whole cluster",
    ]


@pytest.mark.parametrize("kind", [POD, EVENT], ids=["pods", "events"])
def test_what_may_not_be_watched_is_listed_until_it_may(
    kind: Kind,
    project: AppliedProject,
    tenant: ApiAddress,
    api_server: ApiServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server that has just started refuses everybody, too."""
    monkeypatch.setattr(informer, "STARTING_S", 3)
    monkeypatch.setattr(informer, "WATCH_S", 2)  # the server writes a watch down when it ends
    rights: Any = client.RbacAuthorizationV1Api(project.connection)
    fewer = [
        rule
        if "pods" not in rule["resources"]
        else {**rule, "verbs": [each for each in rule["verbs"] if each != "watch"]}
        for rule in RULES
    ]
    began = api_server.audit.stat().st_size
    rights.patch_namespaced_role(USER, NAMESPACE, {"rules": fewer})
    watch = f"watch {kind.plural} in {NAMESPACE}"
    try:
        with shared(
            Selection(tenant, kind, NAMESPACE, lambda found: str(found["metadata"]["name"]))
        ) as known:
            make(kind, "first", project.core)
            wait_until("the first one is listed", lambda: bool(known.objects("first")))
            wait_until("watching is refused", lambda: forbidden(requests(api_server, began)) == [watch])
            refused = api_server.audit.stat().st_size
            rights.patch_namespaced_role(USER, NAMESPACE, {"rules": RULES})
            wait_until("a watch has begun", lambda: watch in begun(requests(api_server, refused)))
            make(kind, "second", project.core)
            wait_until("the second one is known", lambda: bool(known.objects("second")))
    finally:
        rights.patch_namespaced_role(USER, NAMESPACE, {"rules": RULES})
    assert forbidden(requests(api_server, began)) == [watch]


def make(kind: Kind, name: str, core: Any) -> None:
    metadata = {"name": name, "namespace": NAMESPACE}
    if kind is POD:
        spec = {"containers": [{"name": "n", "image": "n"}]}
        core.create_namespaced_pod(NAMESPACE, {"metadata": metadata, "spec": spec})
    else:
        about = {"kind": "Pod", "name": "first", "namespace": NAMESPACE}
        core.create_namespaced_event(NAMESPACE, {"metadata": metadata, "involvedObject": about})


def begun(asked: list[dict[str, Any]]) -> set[str]:
    """The requests that the server has let in."""
    return {written(each) for each in asked if each["responseStatus"]["code"] == 200}


def test_make_status_shows_what_is_in_the_namespace(project: AppliedProject, tenant: ApiAddress) -> None:
    project.stand(**TENANT, **{"operator.install": "auto"})
    access = Access(str(tenant.kubeconfig))
    found = status._objects(
        {"PATH": os.environ["PATH"]}, access, project.stack, cluster_access.access(Path(project.stack_file))
    )
    assert [each["kind"] for each in found] == ["PyTorchJob"]
    assert status.overall(status.inspect_objects(found)) is status.Health.HEALTHY


def test_a_claim_that_is_not_there_is_refused_with_those_that_are(
    project: AppliedProject, api_server: ApiServer
) -> None:
    began = api_server.audit.stat().st_size
    project.configured(**{**TENANT, "storage": {"kind": "claim", "claim": "missing"}})
    told = project.refused()
    assert "trainstack:storage.claim = 'missing'" in told
    assert f"allowed: an existing claim of namespace {NAMESPACE}: it has {CLAIM}\n" in told
    assert forbidden(requests(api_server, began)) == []

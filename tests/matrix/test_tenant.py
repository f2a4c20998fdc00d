"""What a user with few rights sees of a cluster, asked of a real API server: nothing is taken for absent unasked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config

from infra.clusters.discovery import ClusterContents, Question, read_contents
from infra.objects.api import ApiAddress
from infra.objects.look import Look
from standins.tests.apiserver import ApiServer
from tests.matrix import service_account
from tests.matrix.played_operator import PlayedOperator

NAMESPACE, USER = "team", "tenant"
JOBS = {"apiGroups": ["kubeflow.org"], "resources": ["pytorchjobs"], "verbs": ["*"]}


@pytest.fixture(scope="module")
def admin(api_server: ApiServer, operator: PlayedOperator) -> Iterator[client.ApiClient]:
    connection: Any = config.new_client_from_config(str(api_server.kubeconfig))  # type: ignore[no-untyped-call]
    core: Any = client.CoreV1Api(connection)
    rights = client.RbacAuthorizationV1Api(connection)
    core.create_namespace({"metadata": {"name": NAMESPACE}})
    role: Any = {"metadata": {"name": "jobs"}, "rules": [JOBS]}
    subject = {"kind": "ServiceAccount", "name": USER, "namespace": NAMESPACE}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "jobs"}
    binding: Any = {"metadata": {"name": "jobs"}, "roleRef": reference, "subjects": [subject]}
    core.create_namespaced_service_account(NAMESPACE, {"metadata": {"name": USER}})
    rights.create_namespaced_role(NAMESPACE, role)
    rights.create_namespaced_role_binding(NAMESPACE, binding)
    yield connection
    core.delete_namespace(NAMESPACE)


@pytest.fixture
def tenant(admin: client.ApiClient, api_server: ApiServer, tmp_path: Path) -> ApiAddress:
    """A kubeconfig of a ServiceAccount with rights in one namespace."""
    file = service_account.kubeconfig(
        api_server.kubeconfig, client.CoreV1Api(admin), NAMESPACE, USER, tmp_path
    )
    return ApiAddress(str(file))


def look(address: ApiAddress) -> Look:
    return Look(address, print)


def test_what_a_tenant_may_not_list_is_taken_to_be_there(tenant: ApiAddress) -> None:
    found = read_contents(look(tenant), lambda _: False, Question(frozenset({NAMESPACE, "kubeflow"})))
    assert found == ClusterContents(
        namespaces=frozenset({NAMESPACE, "kubeflow"}),
        crd=True,
        operator=True,
        gang_scheduler=True,
        offered=None,
    )


def test_an_administrator_sees_what_is_there(admin: client.ApiClient, api_server: ApiServer) -> None:
    question = Question(frozenset({NAMESPACE, "nowhere"}))
    found = read_contents(look(ApiAddress(str(api_server.kubeconfig))), lambda _: False, question)
    assert (found.problem, found.crd, found.operator) == ("", True, True)
    assert found.offered is not None, "other tests on this server may have made nodes with GPUs"
    assert NAMESPACE in found.namespaces
    assert "nowhere" not in found.namespaces

"""A stack that is destroyed takes nothing of others along, asked of a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from infra.objects.api import ApiAddress
from infra.objects.look import Look
from infra.other_users import users
from standins.tests.apiserver import ApiServer
from tests.e2e.waiting import wait_until
from tests.matrix.played_operator import GROUP, PLURAL, VERSION, PlayedOperator
from tests.matrix.project import AppliedProject, UpError
from tests.matrix.test_secrets import edit_state
from toolchain.operating import shared_objects

NAMESPACE = "everybodys"
SECTIONS = {"cluster.namespace": NAMESPACE}
THEIRS: dict[str, Any] = {
    "apiVersion": f"{GROUP}/{VERSION}",
    "kind": "PyTorchJob",
    "metadata": {"name": "theirs", "namespace": NAMESPACE},
    "spec": {"runPolicy": {"suspend": True}, "pytorchReplicaSpecs": {}},
}


@pytest.fixture
def up(
    api_server: ApiServer, operator: PlayedOperator, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AppliedProject]:
    made = AppliedProject(tmp_path_factory.mktemp("shared"), api_server.kubeconfig)
    try:
        made.up(**SECTIONS)
        yield made
    finally:
        made.destroy()


def names(listed: Any) -> set[str]:
    return {each.metadata.name for each in listed.items}


def deployment(project: AppliedProject) -> dict[str, Any]:
    exported = project.pulumi("stack", "export", "--stack", project.stack).stdout
    found: dict[str, Any] = json.loads(exported)["deployment"]
    return found


def asked(project: AppliedProject, held: dict[str, Any]) -> dict[str, Any]:
    return users(Look(ApiAddress(project.environment["KUBECONFIG"]), print), shared_objects.titles(held))


def of_a_controller(project: AppliedProject) -> dict[str, Any]:
    """THEIRS as a Trial or a Workflow would have made it: its owner is of a kind that nobody asks about."""
    leases: Any = client.CoordinationV1Api(project.connection)
    made = leases.create_namespaced_lease(NAMESPACE, {"metadata": {"name": "owner"}})
    owner = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "name": "owner",
        "uid": made.metadata.uid,
    }
    return {**THEIRS, "metadata": {**THEIRS["metadata"], "ownerReferences": [owner]}}


def test_others_keep_their_job_and_its_namespace(up: AppliedProject, tmp_path: Path) -> None:
    core: Any = up.core
    held = deployment(up)
    assert asked(up, held) == {"jobs": [], "namespaces": {NAMESPACE: []}}, "nobody else uses it yet"
    up.jobs.create_namespaced_custom_object(GROUP, VERSION, NAMESPACE, PLURAL, of_a_controller(up))
    core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": "notes"}})
    found = asked(up, held)
    assert found == {
        "jobs": [f"PyTorchJob/{NAMESPACE}/theirs"],
        "namespaces": {NAMESPACE: [f"ConfigMap/{NAMESPACE}/notes", f"PyTorchJob/{NAMESPACE}/theirs"]},
    }
    assert "theirs" in shared_objects.left(held, found)[1]
    uid = core.read_namespace(NAMESPACE).metadata.uid
    edit_state(up, lambda state: shared_objects.retain(state, found))
    up.destroy()
    left: Any = core.read_namespace(NAMESPACE)
    assert (left.metadata.uid, left.metadata.deletion_timestamp) == (uid, None)
    theirs: Any = up.jobs.get_namespaced_custom_object(GROUP, VERSION, NAMESPACE, PLURAL, "theirs")
    assert "deletionTimestamp" not in theirs["metadata"]
    up.up(**SECTIONS)
    assert core.read_namespace(NAMESPACE).metadata.uid == uid, "the stack comes back beside them"
    assert not shared_objects.are_in(deployment(up)), "what was there is not the stack's any more"
    up.jobs.delete_namespaced_custom_object(GROUP, VERSION, NAMESPACE, PLURAL, "theirs")
    core.delete_namespace(NAMESPACE)
    wait_until("the namespace is gone", lambda: NAMESPACE not in names(core.list_namespace()))


def test_another_namespace_waits_until_nobody_else_is_in_the_old_one(up: AppliedProject) -> None:
    core: Any = up.core
    core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": "notes"}})
    before = deployment(up)
    with pytest.raises(UpError, match=rf"cluster.namespace = 'elsewhere'(?s:.*)ConfigMap/{NAMESPACE}/notes"):
        up.up(**{"cluster.namespace": "elsewhere"})
    assert core.read_namespace(NAMESPACE).metadata.deletion_timestamp is None
    assert shared_objects.titles(deployment(up)) == shared_objects.titles(before), "nothing was touched"

    core.delete_namespaced_config_map("notes", NAMESPACE)
    up.up(**{"cluster.namespace": "elsewhere"})
    assert f"Namespace/{NAMESPACE}" not in shared_objects.titles(deployment(up))

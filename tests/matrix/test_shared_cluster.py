"""A stack that is destroyed takes nothing of others along, asked of a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config

from infra import agreed
from infra.dependents import users
from infra.objects.api import ApiAddress
from infra.objects.look import Look
from standins.tests.apiserver import ApiServer
from tests.e2e.waiting import wait_until
from tests.matrix.played_operator import GROUP, PLURAL, VERSION, PlayedOperator
from tests.matrix.project import AppliedProject, UpError, applied, others_pod
from tests.matrix.verbs import VERBS
from toolchain.operating import objects_left

NAMESPACE = "everybodys"
SECTIONS = {"cluster.namespace": NAMESPACE}
MODELS = "trainstack-matrix-models"
CLAIM = f"PersistentVolumeClaim/{NAMESPACE}/{MODELS}"
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
    with applied(tmp_path_factory.mktemp("shared"), api_server.kubeconfig) as made:
        made.up(**SECTIONS)
        yield made


def names(listed: Any) -> set[str]:
    return {each.metadata.name for each in listed.items}


def asked(project: AppliedProject, held: dict[str, Any]) -> dict[str, Any]:
    return users(Look(ApiAddress(project.environment["KUBECONFIG"]), print), objects_left.titles(held))


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
    held = up.deployment()
    nobody = {"jobs": [], "namespaces": {NAMESPACE: []}, "claims": {CLAIM: []}, "queues": []}
    assert asked(up, held) == nobody, "nobody else uses it yet"
    up.jobs.create_namespaced_custom_object(GROUP, VERSION, NAMESPACE, PLURAL, of_a_controller(up))
    core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": "notes"}})
    found = asked(up, held)
    assert found == {
        "jobs": [],  # the stack has no operator that runs them
        "namespaces": {NAMESPACE: [f"ConfigMap/{NAMESPACE}/notes", f"PyTorchJob/{NAMESPACE}/theirs"]},
        "claims": {CLAIM: []},
        "queues": [],
    }
    assert "theirs" in objects_left.left(held, found)[1]
    uid = core.read_namespace(NAMESPACE).metadata.uid
    up.edit_state(lambda state: objects_left.retain(state, found))
    up.destroy()
    left: Any = core.read_namespace(NAMESPACE)
    assert (left.metadata.uid, left.metadata.deletion_timestamp) == (uid, None)
    theirs: Any = up.jobs.get_namespaced_custom_object(GROUP, VERSION, NAMESPACE, PLURAL, "theirs")
    assert "deletionTimestamp" not in theirs["metadata"]
    up.up(**SECTIONS)
    assert core.read_namespace(NAMESPACE).metadata.uid == uid, "the stack comes back beside them"
    own = objects_left.titles(up.deployment())
    assert f"Namespace/{NAMESPACE}" not in own, "what was there is not the stack's any more"
    up.jobs.delete_namespaced_custom_object(GROUP, VERSION, NAMESPACE, PLURAL, "theirs")
    core.delete_namespace(NAMESPACE)
    wait_until("the namespace is gone", lambda: NAMESPACE not in names(core.list_namespace()))


def test_another_namespace_waits_until_nobody_else_is_in_the_old_one(up: AppliedProject) -> None:
    core: Any = up.core
    core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": "notes"}})
    before = up.deployment()
    with pytest.raises(UpError, match=rf"cluster.namespace = 'elsewhere'(?s:.*)ConfigMap/{NAMESPACE}/notes"):
        up.up(**{"cluster.namespace": "elsewhere"})
    assert core.read_namespace(NAMESPACE).metadata.deletion_timestamp is None
    assert objects_left.titles(up.deployment()) == objects_left.titles(before), "nothing was touched"

    # Pulumi deletes by name: who made the namespace does not matter.
    core.delete_namespace(NAMESPACE)
    wait_until("the namespace is gone", lambda: NAMESPACE not in names(core.list_namespace()))
    core.create_namespace({"metadata": {"name": NAMESPACE}})
    core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": "notes"}})
    with pytest.raises(UpError, match=rf"cluster.namespace = 'elsewhere'(?s:.*)ConfigMap/{NAMESPACE}/notes"):
        up.up(**{"cluster.namespace": "elsewhere"})
    assert core.read_namespaced_config_map("notes", NAMESPACE)

    core.delete_namespaced_config_map("notes", NAMESPACE)
    up.up(**{"cluster.namespace": "elsewhere"})
    assert f"Namespace/{NAMESPACE}" not in objects_left.titles(up.deployment())


@pytest.fixture(params=[True, False], ids=["own namespace", "somebody's namespace"])
def is_own(request: pytest.FixtureRequest, api_server: ApiServer) -> Iterator[bool]:
    """Whether the stack makes its namespace."""
    connection: Any = config.new_client_from_config(str(api_server.kubeconfig))  # type: ignore[no-untyped-call]
    core: Any = client.CoreV1Api(connection)
    if not request.param:
        core.create_namespace({"metadata": {"name": NAMESPACE}})
    yield request.param
    if NAMESPACE in names(core.list_namespace()):
        core.delete_namespace(NAMESPACE)
    wait_until("the namespace is gone", lambda: NAMESPACE not in names(core.list_namespace()))


@pytest.fixture
def mounting(is_own: bool, up: AppliedProject) -> Iterator[None]:
    """Somebody else's pod, which mounts the claim of the models."""
    core: Any = up.core
    core.create_namespaced_pod(NAMESPACE, others_pod("theirs", MODELS))
    wait_until(
        "their pod runs",
        lambda: core.read_namespaced_pod("theirs", NAMESPACE).status.phase == "Running",
    )
    yield
    core.delete_namespaced_pod("theirs", NAMESPACE, grace_period_seconds=0)


@pytest.mark.sampled(1)
def test_down_leaves_a_claim_that_others_pods_mount_with_its_volume(
    is_own: bool, up: AppliedProject, mounting: None, capfd: pytest.CaptureFixture[str]
) -> None:
    """It would wait for ever on a claim that stays Terminating."""
    before = up.objects()

    ended = VERBS["down"](up)

    shown = capfd.readouterr().out
    assert ended.status == 0, ended.told
    kept = [f"PersistentVolume/{MODELS}", CLAIM, *([f"Namespace/{NAMESPACE}"] if is_own else [])]
    (told,) = [
        each for each in shown.splitlines() if each.startswith("left in the cluster, because others use")
    ]
    assert sorted(told.partition(": ")[2].split(", ")) == sorted(kept)
    assert f"used by: Pod/{NAMESPACE}/theirs\n" in shown
    assert f"kubectl --namespace {NAMESPACE} delete persistentvolumeclaim {MODELS}" in shown
    after = up.objects()
    for key in (f"PersistentVolume//{MODELS}", f"PersistentVolumeClaim/{NAMESPACE}/{MODELS}"):
        assert after[key]["metadata"]["uid"] == before[key]["metadata"]["uid"]
        assert "deletionTimestamp" not in after[key]["metadata"]
        assert after[key]["status"]["phase"] == "Bound"
    assert f"Pod/{NAMESPACE}/theirs" in after
    assert not [key for key in after if key.startswith("PyTorchJob/")]

    # What it says of the way back is true.
    (adopt,) = [each for each in shown.split() if each.startswith("ADOPT=")]
    up.environment[agreed.ADOPT] = adopt.partition("=")[2]
    again = VERBS["up"](up)
    assert again.status == 0, again.told + capfd.readouterr().out
    back = up.objects()[f"PersistentVolumeClaim/{NAMESPACE}/{MODELS}"]["metadata"]
    assert back["uid"] == before[f"PersistentVolumeClaim/{NAMESPACE}/{MODELS}"]["metadata"]["uid"]

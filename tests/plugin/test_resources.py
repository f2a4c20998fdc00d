"""Single resources of many kinds: create, diff, update, replace, read, delete, and who owns which field."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.plugin.driver import CallError, Driver, Object
from toolchain.plugins.kubernetes import values
from toolchain.plugins.kubernetes.cluster import MERGE_PATCH, Cluster
from toolchain.plugins.kubernetes.errors import ApiError
from toolchain.plugins.kubernetes.objects import Kind

pytestmark = pytest.mark.apiserver


def obj(api_version: str, kind: str, **fields: Any) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {}, **fields}


WEBHOOK = {
    "name": "it.example.com",
    "clientConfig": {"url": "https://127.0.0.1:1/"},
    "rules": [
        {"apiGroups": ["none"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["none"]}
    ],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "failurePolicy": "Ignore",
}
RULE = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
BACKEND = {"service": {"name": "none", "port": {"number": 80}}}
SELECTOR = {"matchLabels": {"a": "b"}}
KINDS = [
    obj("v1", "ConfigMap", data={"a": "1"}),
    obj("v1", "Secret", stringData={"a": "1"}),
    obj("v1", "ServiceAccount"),
    obj("v1", "LimitRange", spec={"limits": [{"type": "Container", "default": {"cpu": "1000m"}}]}),
    obj("v1", "ResourceQuota", spec={"hard": {"pods": "10", "requests.memory": "1024Mi"}}),
    obj("v1", "Service", spec={"clusterIP": "None", "ports": [{"port": 80}]}),
    obj(
        "apps/v1",
        "ReplicaSet",
        spec={
            "replicas": 0,
            "selector": SELECTOR,
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    ),
    obj(
        "batch/v1",
        "CronJob",
        spec={
            "schedule": "0 0 1 1 *",
            "jobTemplate": {
                "spec": {
                    "template": {
                        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
                    }
                }
            },
        },
    ),
    obj("rbac.authorization.k8s.io/v1", "Role", rules=[RULE]),
    obj("rbac.authorization.k8s.io/v1", "ClusterRole", rules=[RULE]),
    obj(
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "none"},
        subjects=[{"kind": "ServiceAccount", "name": "none", "namespace": "default"}],
    ),
    obj("networking.k8s.io/v1", "NetworkPolicy", spec={"podSelector": {}, "policyTypes": ["Ingress"]}),
    obj("networking.k8s.io/v1", "IngressClass", spec={"controller": "example.com/none"}),
    obj("storage.k8s.io/v1", "StorageClass", provisioner="example.com/none"),
    obj("policy/v1", "PodDisruptionBudget", spec={"minAvailable": 1, "selector": SELECTOR}),
    obj("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", webhooks=[WEBHOOK]),
    obj("scheduling.k8s.io/v1", "PriorityClass", value=7),
    obj("coordination.k8s.io/v1", "Lease", spec={"holderIdentity": "it", "leaseDurationSeconds": 15}),
    obj("discovery.k8s.io/v1", "EndpointSlice", addressType="IPv4", endpoints=[{"addresses": ["10.0.0.1"]}]),
    obj(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        spec={
            "maxReplicas": 2,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"},
        },
    ),
]


@pytest.mark.parametrize("given", KINDS, ids=[kind["kind"] for kind in KINDS])
def test_a_kind_lives_and_leaves_without_a_diff(driver: Driver, namespace: str, given: Object) -> None:
    wanted = copy.deepcopy(given)
    _, checked = driver.check(wanted, name=namespace)
    if "namespace" in checked["metadata"]:
        wanted["metadata"]["namespace"] = namespace
    made = driver.create(wanted, name=namespace)
    assert made.id.endswith(made.outputs["metadata"]["name"])
    assert driver.plan(made, wanted).action == "same"
    labelled = copy.deepcopy(wanted)
    labelled["metadata"]["labels"] = {"edited": "yes"}
    plan = driver.plan(made, labelled)
    assert (plan.action, plan.changes) == ("update", {"metadata.labels": "ADD"})
    foreseen = driver.update(made, labelled, preview=True)
    changed = driver.update(made, labelled)
    assert foreseen.inputs == changed.inputs
    assert changed.outputs["metadata"]["labels"]["edited"] == "yes"
    refreshed = driver.read(changed)
    assert refreshed is not None
    assert refreshed.inputs == changed.inputs, "an update, then a refresh, is empty"
    driver.delete(changed)
    assert driver.read(changed) is None


def config_map(namespace: str, **data: str) -> Object:
    metadata = {"name": "it", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def service_account(namespace: str, *, tokens: bool, **annotations: str) -> Object:
    metadata = {"name": "it", "namespace": namespace, "annotations": annotations}
    made = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
    return {**made, "automountServiceAccountToken": tokens}


def take_over(cluster: Cluster, namespace: str, *, tokens: bool) -> None:
    """Somebody else sets the field of the service account."""
    foreign = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "it", "namespace": namespace},
    }
    cluster.apply({**foreign, "automountServiceAccountToken": tokens}, manager="somebody", force=True)


def test_a_field_of_another_manager_is_a_conflict_that_names_it(
    driver: Driver, cluster: Cluster, namespace: str
) -> None:
    made = driver.update(
        driver.create(service_account(namespace, tokens=True)),
        service_account(namespace, tokens=True, edited="yes"),
    )
    take_over(cluster, namespace, tokens=False)
    refreshed = driver.read(made)
    assert refreshed is not None
    assert refreshed.inputs["automountServiceAccountToken"] is False, "the change shows in a refresh"
    wanted = service_account(namespace, tokens=True, edited="yes")
    assert driver.plan(refreshed, wanted).changes == {"automountServiceAccountToken": "UPDATE"}
    for preview in (True, False):
        with pytest.raises(CallError, match="somebody"):
            driver.update(refreshed, wanted, preview=preview)
    forced = service_account(namespace, tokens=True, **{"pulumi.com/patchForce": "true"})
    assert driver.update(refreshed, forced).outputs["automountServiceAccountToken"] is True


def test_ignored_fields_of_another_manager_are_left_alone(
    driver: Driver, cluster: Cluster, namespace: str
) -> None:
    made = driver.update(
        driver.create(service_account(namespace, tokens=True)),
        service_account(namespace, tokens=True, edited="yes"),
    )
    take_over(cluster, namespace, tokens=False)
    wanted = service_account(namespace, tokens=True, edited="again")
    changed = driver.update(made, wanted, ignored=["automountServiceAccountToken"])
    assert changed.outputs["automountServiceAccountToken"] is False


def test_a_patch_changes_its_fields_and_gives_them_back(
    driver: Driver, cluster: Cluster, namespace: str
) -> None:
    cluster.create(config_map(namespace, theirs="1"))
    patch = config_map(namespace, ours="2")
    token = "kubernetes:core/v1:ConfigMapPatch"
    made = driver.create(patch, token=token)
    assert made.outputs["data"] == {"theirs": "1", "ours": "2"}
    patch["data"]["ours"] = "3"
    assert driver.plan(made, patch).action == "update"
    made = driver.update(made, patch)
    assert made.outputs["data"] == {"theirs": "1", "ours": "3"}
    driver.delete(made)
    assert cluster.get(Kind("", "v1", "ConfigMap"), namespace, "it")["data"] == {"theirs": "1"}


def test_a_patch_needs_a_name(driver: Driver) -> None:
    with pytest.raises(CallError, match=r"metadata\.name"):
        driver.check(obj("v1", "ConfigMap"), token="kubernetes:core/v1:ConfigMapPatch")


def test_lists_are_refused(driver: Driver) -> None:
    with pytest.raises(CallError, match="list resources"):
        driver.check(obj("v1", "ConfigMapList", items=[]))


def test_immutable_fields_replace_and_fixed_names_go_first(driver: Driver, namespace: str) -> None:
    fixed = driver.create(config_map(namespace, a="1"))
    plan = driver.plan(fixed, config_map(namespace, a="2"))
    assert (plan.action, plan.deletes_first, plan.changes) == ("replace", True, {"data.a": "UPDATE_REPLACE"})
    unnamed = {**config_map(namespace, a="1"), "metadata": {"namespace": namespace}}
    autonamed = driver.create(unnamed)
    assert autonamed.inputs["metadata"]["annotations"] == {"pulumi.com/autonamed": "true"}
    plan = driver.plan(autonamed, {**unnamed, "data": {"a": "2"}})
    assert (plan.action, plan.deletes_first) == ("replace", False)


def test_an_object_that_exists_is_not_taken_over(driver: Driver, cluster: Cluster, namespace: str) -> None:
    cluster.create(config_map(namespace, theirs="1"))
    with pytest.raises(CallError, match="already exists"):
        driver.create(config_map(namespace, ours="1"))


def test_unknown_values_are_no_reason_to_ask_the_server(driver: Driver, namespace: str) -> None:
    unknown = {**config_map(namespace), "data": {"a": values.UNKNOWN}}
    foreseen = driver.create(unknown, preview=True)
    assert foreseen.outputs["data"]["a"] is values.UNKNOWN
    made = driver.create(config_map(namespace, a="1"))
    assert driver.plan(made, unknown).changes == {"data.a": "UPDATE_REPLACE"}


def test_a_preview_finds_what_the_server_would_refuse(driver: Driver, namespace: str) -> None:
    bad = config_map(namespace, **{"bad key!": "1"})
    with pytest.raises(CallError, match="a valid config key"):
        driver.create(bad, preview=True)


def test_secrets_stay_secret_in_the_state(driver: Driver, namespace: str) -> None:
    secret = obj("v1", "Secret", stringData={"password": values.Secret("hunter2")})
    secret["metadata"] = {"name": "it", "namespace": namespace}
    made = driver.create(secret)
    for kept in (made.inputs["data"], made.outputs["data"], made.outputs["__inputs"]["data"]):
        assert isinstance(kept, values.Secret)
    assert "stringData" not in made.inputs
    refreshed = driver.read(made)
    assert refreshed is not None
    assert isinstance(refreshed.inputs["data"], values.Secret)


def test_missing_objects_may_be_deleted_again(driver: Driver, namespace: str) -> None:
    made = driver.create(config_map(namespace, a="1"))
    driver.delete(made)
    driver.delete(made)


def test_the_propagation_policy_is_the_annotations(driver: Driver, cluster: Cluster, namespace: str) -> None:
    owner = config_map(namespace, a="1")
    owner["metadata"]["annotations"] = {"pulumi.com/deletionPropagationPolicy": "orphan"}
    made = driver.create(owner)
    uid = made.outputs["metadata"]["uid"]
    child = config_map(namespace, b="1")
    child["metadata"]["name"] = "child"
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "it", "uid": uid}
    child["metadata"]["ownerReferences"] = [reference]
    cluster.create(child)
    driver.delete(made)
    left = cluster.get(Kind("", "v1", "ConfigMap"), namespace, "child")
    assert not left["metadata"].get("ownerReferences")


def test_crds_are_replaced_as_a_whole(driver: Driver, cluster: Cluster, namespace: str) -> None:
    from tests.plugin.test_waiting import definition

    wanted = definition(f"{namespace}.example.com")
    made = driver.create(wanted)
    wanted = copy.deepcopy(wanted)
    wanted["spec"]["versions"].insert(0, {**wanted["spec"]["versions"][0], "name": "v2", "storage": False})
    changed = driver.update(made, wanted)
    assert [v["name"] for v in changed.outputs["spec"]["versions"]] == ["v2", "v1"]
    assert driver.plan(changed, wanted).action == "same"
    driver.delete(changed)


def test_a_change_behind_our_back_to_what_we_do_not_set_is_ignored(
    driver: Driver, cluster: Cluster, namespace: str
) -> None:
    made = driver.create(service_account(namespace, tokens=True))
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/it"
    body = {"metadata": {"labels": {"added": "by-hand"}}}
    cluster.transport.request("PATCH", path, body=body, content_type=MERGE_PATCH)
    refreshed = driver.read(made)
    assert refreshed is not None
    assert refreshed.inputs == made.inputs
    assert driver.plan(refreshed, service_account(namespace, tokens=True)).action == "same"


def test_an_import_takes_over_what_a_program_could_state(
    driver: Driver, cluster: Cluster, namespace: str
) -> None:
    from tests.plugin.driver import Resource, urn_of

    cluster.create(config_map(namespace, a="1"))
    urn = urn_of(config_map(namespace), "it")
    found = driver.read(Resource(urn, f"{namespace}/it", {}, {}))
    assert found is not None
    assert found.inputs == config_map(namespace, a="1")
    with pytest.raises(ApiError):
        cluster.get(Kind("", "v1", "ConfigMap"), namespace, "other")
    assert driver.read(Resource(urn, f"{namespace}/other", {}, {})) is None

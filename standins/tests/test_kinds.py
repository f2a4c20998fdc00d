"""Every kind of object: created, planned, previewed, updated, refreshed and deleted, without a diff of its own."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from standins.tests.driver import CallError, Driver, Object
from standins.tests.samples import annotated, definition, obj, pod_template

pytestmark = pytest.mark.apiserver

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
    obj("v1", "Namespace"),
    obj("v1", "PodTemplate", template=pod_template()),
    obj(
        "v1",
        "PersistentVolume",
        spec={
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "none",
            "hostPath": {"path": "/none"},
        },
    ),
    obj("v1", "ReplicationController", spec={"replicas": 0, "template": pod_template()}),
    obj("v1", "LimitRange", spec={"limits": [{"type": "Container", "default": {"cpu": "1000m"}}]}),
    obj("v1", "ResourceQuota", spec={"hard": {"pods": "10", "requests.memory": "1024Mi"}}),
    obj("v1", "Service", spec={"clusterIP": "None", "ports": [{"port": 80}]}),
    obj(
        "apps/v1",
        "ReplicaSet",
        spec={
            "replicas": 0,
            "selector": {"matchLabels": {"app": "it"}},
            "template": pod_template(),
        },
    ),
    obj(
        "batch/v1",
        "CronJob",
        spec={
            "schedule": "0 0 1 1 *",
            "jobTemplate": {"spec": {"template": pod_template(restartPolicy="Never")}},
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
    obj(
        "rbac.authorization.k8s.io/v1",
        "ClusterRoleBinding",
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "none"},
        subjects=[{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "none"}],
    ),
    obj("networking.k8s.io/v1", "NetworkPolicy", spec={"podSelector": {}, "policyTypes": ["Ingress"]}),
    obj("networking.k8s.io/v1", "IngressClass", spec={"controller": "example.com/none"}),
    obj("storage.k8s.io/v1", "StorageClass", provisioner="example.com/none"),
    obj("policy/v1", "PodDisruptionBudget", spec={"minAvailable": 1, "selector": SELECTOR}),
    obj("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", webhooks=[WEBHOOK]),
    obj("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", webhooks=[WEBHOOK]),
    obj(
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicy",
        spec={
            "failurePolicy": "Ignore",
            "matchConstraints": {"resourceRules": WEBHOOK["rules"]},
            "validations": [{"expression": "true"}],
        },
    ),
    obj("node.k8s.io/v1", "RuntimeClass", handler="none"),
    obj("storage.k8s.io/v1", "CSIDriver", spec={"attachRequired": False}),
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
    live_and_leave(driver, namespace, given)


def live_and_leave(driver: Driver, namespace: str, given: Object) -> None:
    """Through all operations that a resource goes through; named after the test's namespace by the provider."""
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


@pytest.mark.parametrize("scope", ["Namespaced", "Cluster"])
def test_custom_resources_live_like_others(driver: Driver, namespace: str, scope: str) -> None:
    group = f"{namespace}.example.com"
    crd = definition(group)
    crd["spec"]["scope"] = scope
    with driver.made(crd, name="definition"):
        thing = obj(f"{group}/v1", "Thing", spec={"size": 1, "list": [], "map": {}})
        # In the foreground it would wait for the garbage collector, which looks for new kinds every 30 seconds.
        live_and_leave(driver, namespace, annotated(thing, deletionPropagationPolicy="background"))


def test_a_kind_that_nobody_defines_is_named(
    driver: Driver, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pulumi_standins.kubernetes.creation._FIRST_PAUSE", 0.01)
    unknown = obj("nobody.example.com/v1", "Nothing", namespace)
    assert driver.create(unknown, preview=True).inputs == unknown, (
        "its definition may be made by the same program"
    )
    with pytest.raises(CallError, match="Verify that any required CRDs have been created") as failed:
        driver.create(unknown)
    assert 'no matches for kind "Nothing" in version "nobody.example.com/v1"' in str(failed.value)


@pytest.mark.parametrize("kind", [("v1", "ConfigMapList"), ("apps/v1", "DeploymentList")])
def test_lists_are_refused(driver: Driver, kind: tuple[str, str]) -> None:
    with pytest.raises(CallError, match="list resources"):
        driver.check(obj(*kind, items=[]))


def test_crds_are_replaced_as_a_whole(driver: Driver, namespace: str) -> None:
    wanted = definition(f"{namespace}.example.com")
    made = driver.create(wanted)
    wanted = copy.deepcopy(wanted)
    wanted["spec"]["versions"].insert(0, {**wanted["spec"]["versions"][0], "name": "v2", "storage": False})
    changed = driver.update(made, wanted)
    assert [v["name"] for v in changed.outputs["spec"]["versions"]] == ["v2", "v1"]
    assert driver.plan(changed, wanted).action == "same"
    driver.delete(changed)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("extensions/v1beta1/Ingress", 'was removed in Kubernetes 1.22. Use "networking.k8s.io/v1/Ingress"'),
        ("apiextensions.k8s.io/v1beta1/CustomResourceDefinition", "was removed in Kubernetes 1.22."),
    ],
)
def test_kinds_that_the_server_has_dropped_are_refused_at_once(
    driver: Driver, namespace: str, kind: str, said: str
) -> None:
    given = obj(kind.rpartition("/")[0], kind.rpartition("/")[2], namespace)
    with pytest.raises(CallError) as refused:
        driver.create(given)
    assert not any("Retry #1" in line for line in driver.log), (
        "no definition will bring it: nobody waits for one"
    )
    assert said in str(refused.value)
    assert any(line.startswith("warning: ") and said in line for line in driver.log)


def test_kinds_that_have_a_successor_are_warned_of(
    driver: Driver, driver_with: Callable[..., Driver], namespace: str
) -> None:
    endpoints = obj("v1", "Endpoints", namespace)
    driver.check(endpoints)
    said = "warning: v1/Endpoints is deprecated by discovery.k8s.io/v1/EndpointSlice."
    assert said in driver.log
    silent = driver_with(suppressDeprecationWarnings="true")
    silent.check(endpoints)
    assert not silent.log

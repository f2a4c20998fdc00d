"""What `kubectl scale`, `set` and `edit` change, on every kind that a stack registers: our manifests name it.

An update sets right what a manifest names (docs/adr/0022). A variable that somebody adds stays with them: a list that
the API merges by name has no way to say that it is whole.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from infra import stack_plan
from infra.config import Stack
from infra.config.operator import KUEUE_NAMESPACE
from infra.objects.job_kinds import QUEUE_KINDS
from infra.objects.manifest import Manifest
from infra.operators import PARTS, manifests
from infra.training_operator.patches import CRD_KIND
from infra.training_operator.plan import Plan
from standins.tests.apiserver import ApiServer
from tests.matrix.entries import QUEUE
from tests.matrix.test_trainer_v2 import NAMESPACE, WEBHOOKS, Server
from tests.unit.infra.samples import IMAGE, JOB, stack

CONTAINER = "spec.template.spec.containers.*"
BINDING: dict[str, Any] = {"subjects": []}
RULES: dict[str, Any] = {"rules": []}
HOOKS: dict[str, Any] = {"webhooks.*.failurePolicy": "Ignore", "webhooks.*.rules": []}
# Kind -> path of a field that matters, and what somebody sets it to; `*` is every key or entry. Fields that Kubernetes
# lets nobody change are left out, and so is what an operator writes: a Secret's data, a CRD's conversion.
BY_HAND: dict[str, dict[str, Any]] = {
    "Namespace": {"metadata.labels": {}},
    "PersistentVolume": {"spec.persistentVolumeReclaimPolicy": "Delete", "spec.capacity.storage": "1Ti"},
    "PersistentVolumeClaim": {"spec.resources.requests.storage": "1Ti"},
    "ResourceQuota": {"spec.hard": {}},
    "LimitRange": {"spec.limits": []},
    "NetworkPolicy": {"spec.podSelector": {}, "spec.policyTypes": ["Ingress"]},
    "ValidatingAdmissionPolicy": {"spec.failurePolicy": "Ignore", "spec.validations": []},
    "ValidatingAdmissionPolicyBinding": {"spec.validationActions": ["Audit"]},
    "Job": {f"{CONTAINER}.image": "example/other:1", f"{CONTAINER}.resources.limits": {}},
    "PyTorchJob": {
        "spec.pytorchReplicaSpecs.*.replicas": 0,
        "spec.pytorchReplicaSpecs.*.restartPolicy": "Never",
        "spec.runPolicy.activeDeadlineSeconds": 1,
    },
    "TrainJob": {"spec.trainer.numNodes": 1, "spec.activeDeadlineSeconds": 1},
    "TrainingRuntime": {"spec.mlPolicy.numNodes": 1},
    "Deployment": {
        "spec.replicas": 0,
        "spec.template.spec.serviceAccountName": "default",
        f"{CONTAINER}.image": "example/other:1",
        f"{CONTAINER}.resources.limits.memory": "1Gi",
        f"{CONTAINER}.resources.requests.memory": "64Mi",
    },
    "Service": {"spec.type": "NodePort", "spec.selector": {"app": "other"}},
    "ConfigMap": {"data.*": "of somebody"},
    "Role": RULES,
    "ClusterRole": RULES,
    "RoleBinding": BINDING,
    "ClusterRoleBinding": BINDING,
    "ClusterQueue": {"spec.cohortName": "other", "spec.resourceGroups": [], "spec.preemption.*": "Never"},
    "LocalQueue": {"metadata.labels": {}},
    "ResourceFlavor": {"spec.nodeLabels": {}},
    "WorkloadPriorityClass": {"value": 1},
    **dict.fromkeys(WEBHOOKS, HOOKS),
    "ServiceAccount": {},
    "Secret": {},
    CRD_KIND: {},
}
QUOTA = {**QUEUE, "flavors": [{**QUEUE["flavors"][0], "nodeLabels": {"disk": "ssd"}}]}
CLUSTER: dict[str, Any] = {"quota": {"pods": 8}, "limitRange": {"memory": "2Gi"}, "podSecurity": "restricted"}
WHOLE = Plan(crd=True, operator=True, namespaces=(NAMESPACE,), kueue_crds=True, kueue=True)


def of_api(api: str) -> Stack:
    place = {"namespace": NAMESPACE}
    queue = {"queue": QUOTA} if api == "v2" else {}
    return stack(
        operator={"api": api, "queue": "kueue" if queue else "none", **place},
        cluster={**place, **queue, **CLUSTER, "kind": "existing", "guard": "warn"},
        storage={"prepare": True},
        image={"reference": IMAGE},
        job={**JOB, "egress": [{"port": 443}]},
    )


@pytest.fixture(scope="module")
def operators() -> list[Manifest]:
    """Those of the training-operator, of Trainer with JobSet, and of Kueue."""
    alone = replace(WHOLE, kueue_crds=False, kueue=False)
    return [*manifests(of_api("v1"), alone), *manifests(of_api("v2"), WHOLE)]


@pytest.fixture(scope="module")
def registered(operators: list[Manifest]) -> list[Manifest]:
    """What stacks of both APIs register, each with what it may ask of a cluster."""
    stacks = [of_api("v1"), of_api("v2")]
    planned = [each for asked in stacks for each in stack_plan.of(asked, WHOLE, image=IMAGE)]
    return [*(each.manifest for each in planned if each.phase not in PARTS), *operators]


def found(value: Any, path: list[str]) -> Iterator[Any]:
    """The values at `path`; LookupError where one is missing."""
    if not path:
        yield value
        return
    name, *rest = path
    if name == "*":
        assert value, "an empty list would say nothing"
        for each in value.values() if isinstance(value, dict) else value:
            yield from found(each, rest)
    else:
        yield from found(value[name], rest)


def seen(live: Manifest, path: list[str]) -> list[Any]:
    """As `found`; the server leaves out what is empty."""
    try:
        return [*found(live, path)]
    except LookupError:
        return []


def changed(value: Any, path: list[str], other: Any) -> Any:
    """A copy of `value` with `other` at `path`."""
    if not path:
        return copy.deepcopy(other)
    name, *rest = path
    if isinstance(value, list):
        return [changed(each, rest, other) for each in value]
    names = value if name == "*" else [name]
    return {**value, **{each: changed(value[each], rest, other) for each in names}}


def test_every_kind_that_is_registered_is_on_the_list(registered: list[Manifest]) -> None:
    assert {each["kind"] for each in registered} == BY_HAND.keys()


def test_every_manifest_names_what_somebody_may_change(registered: list[Manifest]) -> None:
    silent = []
    for each in registered:
        for path in BY_HAND[each["kind"]]:
            try:
                assert [*found(each, path.split("."))]
            except LookupError:
                silent.append(f"{each['kind']} {each['metadata']['name']}: {path}")
    assert silent == []


def test_an_update_sets_it_right(api_server: ApiServer, operators: list[Manifest]) -> None:
    """Of the controllers; tests/e2e/test_changed_by_hand.py does it to a whole stack, with `make up`.

    A webhook or a CRD of others, and so a quota of Kueue's, would be in the way of the other tests on this server.
    """
    server = Server(str(api_server.kubeconfig))
    nowhere = (*WEBHOOKS, CRD_KIND, *(each.kind for each in QUEUE_KINDS))
    tried = [each for each in operators if each["kind"] not in nowhere]
    server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KUEUE_NAMESPACE}})
    wrong = []
    for each in tried:
        kind = server.found.resources.get(api_version=each["apiVersion"], kind=each["kind"])
        place = {"name": each["metadata"]["name"], "namespace": each["metadata"].get("namespace")}
        before = server.apply(each, force="true")
        try:
            for path, other in BY_HAND[each["kind"]].items():
                words = path.split(".")
                edited = changed(kind.get(**place).to_dict(), words, other)
                del edited["metadata"]["resourceVersion"]  # a controller may write the status meanwhile
                kind.replace(body=edited, **place)
                assert seen(kind.get(**place).to_dict(), words) != seen(before, words)
                if seen(server.apply(each, force="true"), words) != seen(before, words):
                    wrong.append(f"{each['kind']} {place['name']}: {path}")
        finally:
            kind.delete(**place)
    assert wrong == []

"""Wait until an object does what it is for."""

from __future__ import annotations

import os

from pulumi_standins.kubernetes.awaiting import asked, network, pods, storage, workloads
from pulumi_standins.kubernetes.awaiting.scene import CLAIM, ENDPOINTS, POD, REPLICA_SET, SERVICE, Rule
from pulumi_standins.kubernetes.awaiting.waiting import look, wait
from pulumi_standins.kubernetes.objects import SKIP_AWAIT, WAIT_FOR, annotation, is_annotated, kind_of
from pulumi_standins.kubernetes.session import Session
from pulumi_standins.kubernetes.values import Object

RULES = {
    "apiextensions.k8s.io/v1/CustomResourceDefinition": Rule(storage.definition, seconds=60),
    "apps/v1/DaemonSet": Rule(workloads.daemon_set, (POD,), on_refresh=True),
    "apps/v1/Deployment": Rule(workloads.deployment, (REPLICA_SET, POD, CLAIM), on_refresh=True),
    "apps/v1/StatefulSet": Rule(workloads.stateful_set, (POD,), on_refresh=True),
    "batch/v1/Job": Rule(workloads.job, (POD,), on_refresh=True),
    "networking.k8s.io/v1/Ingress": Rule(network.ingress, (ENDPOINTS, SERVICE), on_refresh=True),
    "v1/PersistentVolume": Rule(storage.volume, seconds=300),
    "v1/PersistentVolumeClaim": Rule(storage.claim, seconds=300),
    "v1/Pod": Rule(pods.judge, on_refresh=True),
    "v1/ReplicationController": Rule(workloads.replication_controller),
    "v1/ResourceQuota": Rule(storage.quota, seconds=60),
    "v1/Secret": Rule(storage.secret, seconds=5),
    "v1/Service": Rule(network.service, (ENDPOINTS,), on_refresh=True),
}


def check_annotations(inputs: Object) -> None:
    """Raise ValueError for a `waitFor` that cannot be read: before anything is made, not after."""
    if text := annotation(inputs, WAIT_FOR):
        asked.rule(text)


def until_ready(session: Session, urn: str, inputs: Object, live: Object, seconds: float | None) -> Object:
    """Wait as the kind and the annotations ask; returns the object as last seen.

    Parameters:
        seconds: how long; None for the kind's own time.

    Raises:
        NotReadyError: it did not become ready.
    """
    rule = _rule(inputs, live)
    if rule is None:
        return live
    last = wait(session, urn, rule, live, seconds or rule.seconds)
    session.engine.status(urn, "")
    return last


def check_ready(session: Session, urn: str, inputs: Object, live: Object) -> Object:
    """Look once whether the object is ready; raises NotReadyError when it is not."""
    rule = RULES.get(str(kind_of(live)))
    if rule is None or not rule.on_refresh or is_annotated(inputs, SKIP_AWAIT):
        return live
    found = look(session, urn, rule, live)
    session.engine.status(urn, "")
    return found


def _rule(inputs: Object, live: Object) -> Rule | None:
    if is_annotated(inputs, SKIP_AWAIT):
        return None
    if text := annotation(inputs, WAIT_FOR):
        return asked.rule(text)
    rule = RULES.get(str(kind_of(live)))
    if rule is None and os.environ.get("PULUMI_K8S_AWAIT_ALL") == "true":
        return Rule(asked.generic)
    return rule

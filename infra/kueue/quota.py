"""A stack's quota (`cluster.queue`) as Kueue's objects.

Sources: https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/, apis/kueue/v1beta2 of Kueue 0.17.0
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from infra.config import Stack
from infra.config.queues import Flavor, QueueConfig
from infra.objects.job_kinds import CLUSTER_QUEUE, FLAVOR, LOCAL_QUEUE, PRIORITY_CLASS
from infra.objects.kinds import Kind, title
from infra.objects.labels import NAME_OF_NAMESPACE, stack_labels
from infra.objects.manifest import Manifest

IMMUTABLE = {LOCAL_QUEUE.kind: "spec.clusterQueue"}
"""Kind -> the field that cannot be updated: a change replaces the object."""


def manifests(stack: Stack, kept: Collection[str]) -> list[Manifest]:
    """Flavors and priority classes, then the ClusterQueue, then its LocalQueues; none without a quota.

    Parameters:
        kept: titles of flavors and priority classes that somebody else created.
    """
    quota = stack.cluster.queue
    if quota is None:
        return []
    namespace, gpus = stack.cluster.namespace, {each.resources.gpu_resource for each in stack.jobs}
    name = quota.name_for(stack.name)

    def made(kind: Kind, name: str, namespace: str = "", **content: Any) -> Manifest:
        place = {"namespace": namespace} if namespace else {}
        metadata = {"name": name, **place, "labels": stack_labels(stack.name)}
        return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **content}

    found = [
        *(made(FLAVOR, each.name, spec=_of_nodes(each)) for each in quota.flavors),
        *(made(PRIORITY_CLASS, name, value=value) for name, value in sorted(quota.priorities.items())),
        made(CLUSTER_QUEUE, name, spec=_share(quota, namespace, gpus)),
        *(made(LOCAL_QUEUE, each, namespace, spec={"clusterQueue": name}) for each in quota.local_queues),
    ]
    return [each for each in found if title(each) not in kept]


def _of_nodes(flavor: Flavor) -> dict[str, Any]:
    return {"nodeLabels": dict(flavor.node_labels)} if flavor.node_labels else {}


def _share(quota: QueueConfig, namespace: str, gpus: Collection[str]) -> dict[str, Any]:
    """The spec of a ClusterQueue. `gpus`: resource names of the jobs' GPUs."""
    return {
        **({"cohortName": quota.cohort} if quota.cohort else {}),
        "namespaceSelector": {"matchLabels": {NAME_OF_NAMESPACE: namespace}},
        "preemption": quota.preemption.manifest(),
        "resourceGroups": [
            {
                "coveredResources": [*quota.flavors[0].nominal_quota.by_resource(gpus)],
                "flavors": [{"name": each.name, "resources": _amounts(each, gpus)} for each in quota.flavors],
            }
        ],
    }


def _amounts(flavor: Flavor, gpus: Collection[str]) -> list[dict[str, str]]:
    limits = flavor.borrowing_limit.by_resource(gpus)
    return [
        {
            "name": name,
            "nominalQuota": amount,
            **({"borrowingLimit": limits[name]} if name in limits else {}),
        }
        for name, amount in flavor.nominal_quota.by_resource(gpus).items()
    ]

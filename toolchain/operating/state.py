"""Reads a stack's state: its cluster, the objects in it, and operations that a killed Pulumi left pending.

A deployment is the state as the backend stores it and `pulumi stack export` shows it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra import agreed, paths
from infra.cluster_kinds import ClusterKind
from infra.objects import labels
from toolchain.operating import state_copies
from toolchain.paths import MODELS, ROOT

RETAINED = "retainOnDelete"
HALF_REPLACED = "pendingReplacement"
"""Pulumi's mark on a resource that was deleted for its replacement (sdk/v3/go/common/apitype/core.go)."""
STACK = "pulumi:pulumi:Stack"
JOBS = ("kubernetes:kubeflow.org/v1:PyTorchJob", "kubernetes:trainer.kubeflow.org/v1alpha1:TrainJob")
# The mark of special values in a state (sdk/v3/go/common/resource/sig), and the word that the CLI shows for a secret
# (pkg/v3/backend/display/json.go).
SIGNATURE, SECRET = "4dabf18193072939515e22adb298388d", "[secret]"

Deployment = Mapping[str, Any]
Resource = dict[str, Any]


@dataclass(frozen=True)
class Access:
    """A kubeconfig file and a context in it; None means the current context."""

    kubeconfig: str
    context: str | None = None


def deployment(stack: str) -> dict[str, Any]:
    """The deployment of `stack` in our file backend, read without Pulumi; empty if the stack was never up.

    Raises SetupError if the state and all its copies are damaged.
    """
    kept = json.loads(state_copies.read(stack) or "{}")
    latest: dict[str, Any] = (kept.get("checkpoint") or {}).get("latest") or {}
    return latest


def resources(deployment: Deployment) -> list[Resource]:
    return deployment.get("resources") or []


def of_type(deployment: Deployment, kind: str) -> Resource | None:
    """The stack's resource of this type, or None. A stack has at most one."""
    return next((each for each in resources(deployment) if each["type"] == kind), None)


def objects(deployment: Deployment) -> list[Resource]:
    """The Kubernetes objects in the state."""
    return [each for each in resources(deployment) if each["type"].startswith(agreed.OBJECT)]


def outputs(deployment: Deployment) -> dict[str, Any]:
    """The stack's outputs, with secrets masked as by `pulumi stack output`, but read a second faster."""
    stack = of_type(deployment, STACK) or {}
    return {name: _masked(value) for name, value in (stack.get("outputs") or {}).items()}


def _masked(value: Any) -> Any:
    if isinstance(value, list):
        return [_masked(each) for each in value]
    if not isinstance(value, dict):
        return value
    return SECRET if SIGNATURE in value else {name: _masked(each) for name, each in value.items()}


def jobs(deployment: Deployment, side: str = "outputs") -> list[tuple[str, dict[str, Any]]]:
    """Kind and metadata of each of the stack's jobs, as registered (`inputs`) or from the API server (`outputs`)."""
    found = [each.get(side) or {} for each in resources(deployment) if each["type"] in JOBS]
    return [(str(job.get("kind")), job.get("metadata") or {}) for job in found]


def runs(deployment: Deployment) -> list[str]:
    """The ids of the runs of the stack's jobs."""
    found = [metadata.get("labels") or {} for _, metadata in jobs(deployment, "inputs")]
    there = [str(each[labels.RUN]) for each in found if labels.RUN in each]
    return [*dict.fromkeys([*there, *(str(each["run"]) for each in finished(deployment).values())])]


def finished(deployment: Deployment) -> dict[str, dict[str, Any]]:
    """`Kind/namespace/name` -> its run, of jobs that have succeeded and may be deleted after their end."""
    there = [each for each in resources(deployment) if not (each.get("delete") or each.get(HALF_REPLACED))]
    runs = [each.get("outputs") or {} for each in there if each["type"] == agreed.RUN]
    leaving = filter(agreed.has_finished, runs)
    return {f"{each.get('kind') or 'PyTorchJob'}/{each['namespace']}/{each['job']}": each for each in leaving}


def job_uids(deployment: Deployment) -> set[str]:
    """The uids of the stack's jobs, from the API server."""
    return {str(metadata["uid"]) for _, metadata in jobs(deployment) if metadata.get("uid")}


def unfollowed(deployment: Deployment, stack: str) -> list[dict[str, str]]:
    """Kind, namespace, name, uid and run of each of the stack's jobs whose end is not recorded on this machine."""
    found = []
    for kind, metadata in jobs(deployment):
        run = (metadata.get("labels") or {}).get(labels.RUN)
        known = agreed.recorded(MODELS / stack / "runs" / str(run))
        if run and metadata.get("uid") and not agreed.has_end(known, metadata["uid"]):
            found.append(
                {"kind": kind, "run": run, **{key: metadata[key] for key in ("namespace", "name", "uid")}}
            )
    return found


def access(deployment: Deployment) -> Access | None:
    """How to reach the cluster of the state's objects; None if no object is in a cluster.

    The provider's own kubeconfig is encrypted, so the path beside it is read. That path is relative to this clone. It
    is missing if the stack uses the usual kubeconfig file (infra/clusters/existing/component.py).
    """
    if name := own_cluster(deployment):
        return Access(str(paths.kubeconfig(name)))
    provider = of_type(deployment, agreed.PROVIDER)
    if provider is None:
        return None
    inputs = [each.get("inputs") or {} for each in resources(deployment)]
    files = [each["kubeconfigPath"] for each in inputs if isinstance(each.get("kubeconfigPath"), str)]
    context = (provider.get("inputs") or {}).get("context")
    return Access(str(ROOT / files[0] if files else agreed.usual_kubeconfig()), context)


def owner(deployment: Deployment) -> str | None:
    """The id in the mark of the stack's objects."""
    found = of_type(deployment, agreed.OWNER)
    return str(found["outputs"]["owner"]) if found and found.get("outputs") else None


def clusters(deployment: Deployment) -> dict[ClusterKind, dict[str, Any]]:
    """Kind -> properties of the stack's cluster resource; empty if the stack uses somebody else's cluster."""
    found = {kind: of_type(deployment, kind.resource) for kind in ClusterKind if kind.resource}
    return {
        kind: {**(each.get("inputs") or {}), **(each.get("outputs") or {})}
        for kind, each in found.items()
        if each
    }


def _whole(deployment: Deployment) -> dict[str, Any] | None:
    """Properties of the stack's own cluster, if all objects in the cluster are deleted with it."""
    return next((props for kind, props in clusters(deployment).items() if kind.traits.goes_whole), None)


def own_cluster(deployment: Deployment) -> str | None:
    """Name of the stack's own cluster, if all its objects are deleted with it; None if there is no such cluster."""
    found = _whole(deployment)
    return str(json.loads(found["config"])["name"] if "config" in found else found["name"]) if found else None


def instance(deployment: Deployment) -> str | None:
    """The id of the stack's own cluster; None if the state has none."""
    return (_whole(deployment) or {}).get("instance")


def half_replaced(deployment: Deployment) -> list[Resource]:
    """Resources of Kubernetes objects that a replacement has deleted, and not yet created again."""
    return [
        each
        for each in resources(deployment)
        if each.get(HALF_REPLACED) and each["type"].startswith(agreed.OBJECT)
    ]


def has_pending(deployment: Deployment) -> bool:
    """Whether a killed run left operations with an unknown result."""
    return bool(deployment.get("pending_operations") or half_replaced(deployment))


def has_resources(deployment: Deployment) -> bool:
    """Whether `make down` has something to delete."""
    return bool(deployment.get("resources")) or has_pending(deployment)


def forget_pending(deployment: dict[str, Any]) -> None:
    """Remove the pending operations of a killed run. Their objects, if any, are deleted with the cluster."""
    deployment["pending_operations"] = []


def left_behind(deployment: Deployment) -> list[Resource]:
    """The objects, and their provider, of an old cluster that the state's cluster has replaced.

    These objects are gone with the old cluster. Nobody can delete them: a request to the old API server would hang.
    """
    current = instance(deployment)
    if current is None:
        return []
    old = {
        f"{each['urn']}::{each['id']}"
        for each in resources(deployment)
        if each["type"] == agreed.PROVIDER
        and (each.get("inputs") or {}).get("clusterIdentifier", current) != current
    }
    found = resources(deployment)
    return [each for each in found if {each.get("provider"), f"{each['urn']}::{each.get('id')}"} & old]


def forget_left_behind(deployment: dict[str, Any]) -> None:
    """Remove `left_behind`, and resources that need these, from the state. The next update creates them all again."""
    gone = {id(each) for each in left_behind(deployment)}
    while gone:
        deployment["resources"] = [each for each in resources(deployment) if id(each) not in gone]
        there = {each["urn"] for each in resources(deployment)}
        gone = {id(each) for each in resources(deployment) if _needs(each) - there}


def _needs(resource: Resource) -> set[str]:
    """The URNs that `resource` needs in a valid state."""
    named = [resource.get("parent"), resource.get("deletedWith"), *(resource.get("dependencies") or [])]
    for urns in (resource.get("propertyDependencies") or {}).values():
        named += urns or []
    return {str(urn) for urn in named if urn}

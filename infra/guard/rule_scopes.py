"""The scope of a rule: the kinds of objects, and their parts, in Python and in CEL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from infra.guard.conditions import OBJECT, Bound, at, listed, text
from infra.objects.job_kinds import PYTORCHJOB
from infra.objects.kinds import DEPLOYMENT, JOB, NAMESPACE, POD, VOLUME, Kind
from infra.objects.manifest import Manifest

RBAC = "rbac.authorization.k8s.io/v1"
TEMPLATE = ("spec", "template", "spec")
REPLICAS = ("spec", "pytorchReplicaSpecs")
KINDS = {
    each.kind: each
    for each in (
        POD,
        Kind.of("ReplicationController", "v1"),
        DEPLOYMENT,
        *(Kind.of(kind, "apps/v1") for kind in ("ReplicaSet", "StatefulSet", "DaemonSet")),
        JOB,
        Kind.of("CronJob", "batch/v1"),
        PYTORCHJOB,
        VOLUME,
        Kind.of("Role", RBAC),
        Kind.of("ClusterRole", RBAC),
        NAMESPACE,
    )
}
CONTROLLERS = ("ReplicationController", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job")
PODS = {
    "Pod": ("spec",),
    **dict.fromkeys(CONTROLLERS, TEMPLATE),
    "CronJob": ("spec", "jobTemplate", *TEMPLATE),
}
"""Kind -> the path from an object to its pod's spec."""
RUN_PODS = (*PODS, PYTORCHJOB.kind)


def replicas(manifest: Manifest) -> list[Any]:
    """Each replica type of a PyTorchJob."""
    specs = at(*REPLICAS).read(manifest) if manifest["kind"] == PYTORCHJOB.kind else None
    return list((specs or {}).values())


def pod_specs(manifest: Manifest) -> list[Any]:
    """Every pod spec in a manifest of any kind."""
    found = [at("template", "spec").read(each) for each in replicas(manifest)]
    if path := PODS.get(manifest["kind"]):
        found.append(at(*path).read(manifest))
    return [each for each in found if each is not None]


def variables() -> dict[str, str]:
    """Variables for expressions of CEL, each after the variables that it uses."""
    optional = at("object", *REPLICAS).cel()
    values = f"{optional}.orValue({{}}).map(type, {optional}.value()[type])"
    pods = "variables.replicas.map(replica, replica.template.spec)"
    for path in dict.fromkeys(PODS.values()):
        named = ", ".join(f'"{name}"' for name, own in PODS.items() if own == path)
        pods = f"variables.kind in [{named}] ? [{OBJECT}.{'.'.join(path)}] : {pods}"
    return {
        "object": "dyn(object)",
        "kind": "request.kind.kind",
        "replicas": f'variables.kind == "{PYTORCHJOB.kind}" ? {values} : []',
        "pods": pods,
    }


@dataclass(frozen=True)
class Scope:
    """The parts of an object that a rule checks.

    Parameters:
        kinds: kinds of the objects.
        parts: gives one map for each part of an object. A key is the first word of a path, the value what it names.
        cel: a condition on a part -> the condition for all parts of an object; true for an object without such parts.
    """

    kinds: tuple[str, ...]
    parts: Callable[[Manifest], Iterator[Bound]]
    cel: Callable[[str], str]


def objects(*kinds: str) -> Scope:
    """Whole objects of these kinds."""
    others = " && ".join(f"variables.kind != {text(kind)}" for kind in kinds)
    return Scope(kinds, lambda each: iter([{"object": each}]), lambda held: f"({others}) || ({held})")


def _of_pods(name: str, *fields: str) -> Scope:
    """The entries of the lists `fields` of each pod. A path calls an entry `name`, and its pod `pod`."""

    def parts(manifest: Manifest) -> Iterator[Bound]:
        for pod in pod_specs(manifest):
            for field in fields:
                for each in pod.get(field) or []:
                    yield {"object": manifest, "pod": pod, name: each}

    entries = " + ".join(listed(f"pod.?{field}") for field in fields)
    return Scope(RUN_PODS, parts, lambda held: f"variables.pods.all(pod, ({entries}).all({name}, {held}))")


CONTAINERS = _of_pods("container", "initContainers", "containers")
# Also the containers that `kubectl debug` adds to a pod. They may have no limits, so CONTAINERS leaves them out.
ALL_CONTAINERS = _of_pods("container", "initContainers", "containers", "ephemeralContainers")
POD_VOLUMES = _of_pods("volume", "volumes")
REPLICA_TYPES = Scope(
    (PYTORCHJOB.kind,),
    lambda manifest: ({"object": manifest, "replica": each} for each in replicas(manifest)),
    lambda held: f"variables.replicas.all(replica, {held})",
)
RIGHTS = Scope(
    ("Role", "ClusterRole"),
    lambda manifest: ({"object": manifest, "right": each} for each in manifest.get("rules") or []),
    lambda held: f"{listed(at('object', 'rules').cel())}.all(right, {held})",
)

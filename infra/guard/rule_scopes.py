"""Where a rule looks: the kinds of objects, and the parts of one that it is about, for both readings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from infra.guard.conditions import OBJECT, Bound, at, listed, text
from infra.objects.job_kinds import PYTORCHJOB
from infra.objects.manifest import Manifest


@dataclass(frozen=True)
class Kind:
    """A kind as the API has it, and where its pods' specs are.

    Parameters:
        group: of the API; empty for the core group.
        plural: its name in paths.
        version: of the group.
        pod: the path from the object to its pod's spec; None where it has none.
    """

    group: str
    plural: str
    version: str = "v1"
    pod: tuple[str, ...] | None = None


TEMPLATE = ("spec", "template", "spec")
REPLICAS = ("spec", "pytorchReplicaSpecs")
KINDS: dict[str, Kind] = {
    "Pod": Kind("", "pods", pod=("spec",)),
    "ReplicationController": Kind("", "replicationcontrollers", pod=TEMPLATE),
    "Deployment": Kind("apps", "deployments", pod=TEMPLATE),
    "ReplicaSet": Kind("apps", "replicasets", pod=TEMPLATE),
    "StatefulSet": Kind("apps", "statefulsets", pod=TEMPLATE),
    "DaemonSet": Kind("apps", "daemonsets", pod=TEMPLATE),
    "Job": Kind("batch", "jobs", pod=TEMPLATE),
    "CronJob": Kind("batch", "cronjobs", pod=("spec", "jobTemplate", *TEMPLATE)),
    PYTORCHJOB.kind: Kind(PYTORCHJOB.group, PYTORCHJOB.plural, PYTORCHJOB.version),
    "PersistentVolume": Kind("", "persistentvolumes"),
    "Role": Kind("rbac.authorization.k8s.io", "roles"),
    "ClusterRole": Kind("rbac.authorization.k8s.io", "clusterroles"),
    "Namespace": Kind("", "namespaces"),
}
RUN_PODS = tuple(name for name, kind in KINDS.items() if kind.pod or name == PYTORCHJOB.kind)


def replicas(manifest: Manifest) -> list[Any]:
    """Each replica type of a PyTorchJob."""
    specs = at(*REPLICAS).read(manifest) if manifest["kind"] == PYTORCHJOB.kind else None
    return list((specs or {}).values())


def pod_specs(manifest: Manifest) -> list[Any]:
    """Every pod spec in a manifest, whatever its kind."""
    found = [at("template", "spec").read(each) for each in replicas(manifest)]
    kind = KINDS.get(manifest["kind"])
    if kind and kind.pod:
        found.append(at(*kind.pod).read(manifest))
    return [each for each in found if each is not None]


def variables() -> dict[str, str]:
    """Names that expressions of CEL use, in the order in which they build on each other."""
    optional = at("object", *REPLICAS).cel()
    values = f"{optional}.orValue({{}}).map(type, {optional}.value()[type])"
    paths = {name: kind.pod for name, kind in KINDS.items() if kind.pod}
    pods = "variables.replicas.map(replica, replica.template.spec)"
    for path in dict.fromkeys(paths.values()):
        named = ", ".join(f'"{name}"' for name, own in paths.items() if own == path)
        pods = f"variables.kind in [{named}] ? [{OBJECT}.{'.'.join(path)}] : {pods}"
    return {
        "object": "dyn(object)",
        "kind": "request.kind.kind",
        "replicas": f'variables.kind == "{PYTORCHJOB.kind}" ? {values} : []',
        "pods": pods,
    }


@dataclass(frozen=True)
class Scope:
    """The parts of an object that a rule is about.

    Parameters:
        kinds: those of the objects.
        parts: an object -> what each part is bound to.
        cel: a condition on a part -> the same on all parts of an object, true of one that has none.
    """

    kinds: tuple[str, ...]
    parts: Callable[[Manifest], Iterator[Bound]]
    cel: Callable[[str], str]


def objects(*kinds: str) -> Scope:
    """Whole objects of these kinds."""
    others = " && ".join(f"variables.kind != {text(kind)}" for kind in kinds)
    return Scope(kinds, lambda each: iter([{"object": each}]), lambda held: f"({others}) || ({held})")


def _of_pods(name: str, *fields: str) -> Scope:
    """The entries of these lists of each pod, each called `name`; beside it its `pod`."""

    def parts(manifest: Manifest) -> Iterator[Bound]:
        for pod in pod_specs(manifest):
            for field in fields:
                for each in pod.get(field) or []:
                    yield {"object": manifest, "pod": pod, name: each}

    entries = " + ".join(listed(f"pod.?{field}") for field in fields)
    return Scope(RUN_PODS, parts, lambda held: f"variables.pods.all(pod, ({entries}).all({name}, {held}))")


CONTAINERS = _of_pods("container", "initContainers", "containers")
# What `kubectl debug` adds to a pod; Kubernetes lets it have no resources.
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

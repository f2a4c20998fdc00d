"""Foreign objects in a stack's own cluster: not created by the stack, by Kubernetes or by a controller."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from infra.cluster_kinds import KINDS
from infra.objects.kinds import title
from infra.objects.labels import MANAGED_BY, STACK
from infra.objects.look import Look

GROUPS = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

OF_KINDS = [traits.system for traits in KINDS.values()]
SYSTEM_NAMESPACES = {
    *("kube-system", "kube-public", "kube-node-lease"),
    *(name for each in OF_KINDS for name in each.namespaces),
}
SYSTEM_GROUPS = tuple(name for each in OF_KINDS for name in each.groups)
# Kinds whose objects Kubernetes and its controllers create by themselves.
SYSTEM_RESOURCES = {
    *("apiservices", "certificatesigningrequests", "componentstatuses", "controllerrevisions", "csinodes"),
    *("endpoints", "endpointslices", "events", "flowschemas", "ipaddresses", "leases", "nodes"),
    *("prioritylevelconfigurations", "servicecidrs", "volumeattachments"),
}
SYSTEM_OBJECTS = {
    ("namespaces", "default"),
    ("services", "kubernetes"),
    ("serviceaccounts", "default"),
    ("configmaps", "kube-root-ca.crt"),
    *(found for each in OF_KINDS for found in each.objects),
    *(("clusterroles", name) for name in ("admin", "cluster-admin", "edit", "view")),
    ("clusterrolebindings", "cluster-admin"),
}
SYSTEM_PREFIXES = (
    *("system:", "system-", "kubeadm:"),
    *(name for each in OF_KINDS for name in each.prefixes),
)
CLUSTER_WIDE_SYSTEM = {"clusterroles", "clusterrolebindings", "priorityclasses"}


def titles(look: Look, stack: str) -> list[str]:
    """`configmaps/default/notes` of each object that is not `stack`'s. Raises UnknownError."""
    return sorted(
        title({**each, "kind": resource})
        for resource, each in _objects(look)
        if is_foreign(resource, each, stack)
    )


def is_foreign(resource: str, item: dict[str, Any], stack: str) -> bool:
    """Whether somebody else created an object of the kind `resource` (plural), by its metadata."""
    metadata = item["metadata"]
    labels = metadata.get("labels") or {}
    name, namespace = metadata["name"], metadata.get("namespace")
    if STACK in labels:
        return bool(labels[STACK] != stack)
    system = (
        resource in SYSTEM_RESOURCES
        or (resource, name) in SYSTEM_OBJECTS
        or namespace in SYSTEM_NAMESPACES
        or (resource == "namespaces" and name in SYSTEM_NAMESPACES)
        or (resource in CLUSTER_WIDE_SYSTEM and name.startswith(SYSTEM_PREFIXES))
        or (resource == "customresourcedefinitions" and name.endswith(SYSTEM_GROUPS))
    )
    made_by_us = MANAGED_BY.items() <= labels.items()
    return not (system or made_by_us or metadata.get("ownerReferences"))


def _objects(look: Look) -> Iterator[tuple[str, dict[str, Any]]]:
    """Kind (plural) and metadata of every object, each once: from the first version of its group that has its kind."""
    for root in ("/api", "/apis"):
        for group in look.items(root, GROUPS):
            if group["metadata"].get("name") in SYSTEM_GROUPS:
                continue
            served: set[str] = set()
            for version in group["versions"]:
                name = group["metadata"].get("name")
                folder = f"/apis/{name}/{version['version']}" if name else f"/api/{version['version']}"
                for resource in version.get("resources") or []:
                    plural = resource["resource"]
                    if plural in served or "list" not in resource["verbs"] or plural in SYSTEM_RESOURCES:
                        continue
                    served.add(plural)
                    for item in look.items(f"{folder}/{plural}", METADATA):
                        yield plural, item

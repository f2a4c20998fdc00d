"""Claims, and our PersistentVolumes, as data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Manifest = dict[str, Any]
SKIP_AWAIT = "pulumi.com/skipAwait"
PREPARES = "-prepare"
"""The Job that prepares a volume's folder has the claim's name with this suffix."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim by its name. The classes below are our claims; any other claim was created by somebody else.

    Parameters:
        claim, namespace: name and namespace of the PersistentVolumeClaim.
    """

    claim: str
    namespace: str


@dataclass(frozen=True, kw_only=True)
class ProvisionedClaim(Claim):
    """Our claim; the provisioner of its storage class creates the volume.

    Parameters:
        request: a Kubernetes quantity.
        access_mode, storage_class: Kubernetes' names.
        owner: labels that name its owner.
    """

    request: str
    access_mode: str
    storage_class: str
    owner: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Volume(Claim):
    """Our PersistentVolume and its claim, which are bound to each other from the start.

    Parameters:
        name: the name of the PersistentVolume.
        source: where its files are, as `host_path` or `nfs` returns it.
        capacity, request: Kubernetes quantities; neither hostPath nor NFS enforces them.
        access_mode, storage_class, reclaim_policy: Kubernetes' names.
        labels: further labels of the volume; the claim selects by `type` and `name`.
        owner: labels that name the owner of both objects; no selector uses them.
        node: the only node with the folder; None if all nodes have it.
    """

    name: str
    source: Manifest
    capacity: str
    request: str
    access_mode: str
    storage_class: str
    reclaim_policy: str
    labels: Mapping[str, str] = field(default_factory=dict)
    owner: Mapping[str, str] = field(default_factory=dict)
    node: str | None = None

    @property
    def selector(self) -> dict[str, str]:
        """The two labels by which the claim selects. All other labels may change while the volume is bound."""
        return {"type": self.labels.get("type", "trainstack"), "name": self.labels.get("name", self.name)}

    @property
    def fixed(self) -> str:
        """Digest of the fields that cannot change on a bound volume or claim. If one changes, both are replaced.

        Sources: ValidatePersistentVolumeUpdate and ValidatePersistentVolumeClaimUpdate in
        https://github.com/kubernetes/kubernetes/blob/v1.34.4/pkg/apis/core/validation/validation.go
        """
        volume = persistent_volume(self)["spec"]
        changeable = ("capacity", "persistentVolumeReclaimPolicy")
        kept = {key: value for key, value in volume.items() if key not in changeable}
        text = json.dumps([kept, persistent_volume_claim(self)["spec"]], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def host_path(path: str, kind: str = "") -> Manifest:
    """A folder on the node.

    Parameters:
        path: absolute.
        kind: Kubernetes' check of the folder, for example DirectoryOrCreate; empty for no check.
    """
    return {"hostPath": {"path": path, **({"type": kind} if kind else {})}}


def nfs(server: str, path: str) -> Manifest:
    """The folder `path` that the NFS server `server` exports; each node that mounts it needs an NFS client."""
    return {"nfs": {"server": server, "path": path}}


def persistent_volume(volume: Volume) -> Manifest:
    """The volume. Only its claim can bind it.

    Its claimRef has no uid: the claim may be replaced, and the binder fills in the present claim's uid.
    """
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume.name, "labels": {**volume.owner, **volume.labels, **volume.selector}},
        "spec": {
            "storageClassName": volume.storage_class,
            "capacity": {"storage": volume.capacity},
            "accessModes": [volume.access_mode],
            "persistentVolumeReclaimPolicy": volume.reclaim_policy,
            "claimRef": {"namespace": volume.namespace, "name": volume.claim},
            **volume.source,
            **({"nodeAffinity": _only_on(volume.node)} if volume.node else {}),
        },
    }


def _only_on(node: str) -> Manifest:
    """The scheduler places pods that mount the volume on this node."""
    term = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}}


def is_provisioned(manifest: Manifest) -> bool:
    """Whether `manifest` is the claim of a ProvisionedClaim."""
    return (
        SKIP_AWAIT in manifest["metadata"].get("annotations", {})
        and manifest["kind"] == "PersistentVolumeClaim"
    )


def persistent_volume_claim(volume: Volume | ProvisionedClaim) -> Manifest:
    """The claim. The claim of our volume selects by two labels, so it binds no other volume.

    We do not wait until a provisioned claim is bound: many storage classes wait for the first pod that mounts it.
    """
    labels = {"labels": dict(volume.owner)} if volume.owner else {}
    provisioned = isinstance(volume, ProvisionedClaim)
    annotations = {"annotations": {SKIP_AWAIT: "true"}} if provisioned else {}
    selector = {} if isinstance(volume, ProvisionedClaim) else {"selector": {"matchLabels": volume.selector}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": volume.claim, "namespace": volume.namespace, **labels, **annotations},
        "spec": {
            "storageClassName": volume.storage_class,
            "accessModes": [volume.access_mode],
            "resources": {"requests": {"storage": volume.request}},
            **selector,
        },
    }


def manifests(volume: Claim) -> list[Manifest]:
    """The objects that the stack creates: volume and claim, only the claim, or none."""
    if isinstance(volume, Volume):
        return [persistent_volume(volume), persistent_volume_claim(volume)]
    return [persistent_volume_claim(volume)] if isinstance(volume, ProvisionedClaim) else []

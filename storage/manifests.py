"""Claims, and the PersistentVolumes that are ours, as data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Manifest = dict[str, Any]
SKIP_AWAIT = "pulumi.com/skipAwait"
PREPARES = "-prepare"
"""What the Job that prepares a volume's folder is called, behind the name of the claim."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim by its name. Somebody else made it, unless it is of one of the classes below.

    Parameters:
        claim, namespace: of the PersistentVolumeClaim.
    """

    claim: str
    namespace: str


@dataclass(frozen=True, kw_only=True)
class ProvisionedClaim(Claim):
    """A claim of ours whose volume the provisioner of its storage class makes.

    Parameters:
        request: a Kubernetes quantity.
        access_mode, storage_class: as Kubernetes names them.
        owner: labels that say whose it is.
    """

    request: str
    access_mode: str
    storage_class: str
    owner: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Volume(Claim):
    """A PersistentVolume of ours and the claim that it is bound to beforehand.

    Parameters:
        name: of the PersistentVolume.
        source: where its files are: what `host_path` or `nfs` returns.
        capacity, request: Kubernetes quantities; neither source enforces them.
        access_mode, storage_class, reclaim_policy: as Kubernetes names them.
        labels: further labels of the volume; `type` and `name` are those that the claim selects by.
        owner: labels of both objects that say whose they are; never selected by.
        node: the only node that has the folder; None where all have it.
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
    def all_labels(self) -> dict[str, str]:
        """The volume's labels, the ones that the claim selects by included."""
        return {**self.labels, **self.selector}

    @property
    def selector(self) -> dict[str, str]:
        """The two labels that the claim selects by; all others may change while it is bound."""
        return {"type": self.labels.get("type", "trainstack"), "name": self.labels.get("name", self.name)}

    @property
    def fixed(self) -> str:
        """Digest of what Kubernetes lets nobody change on a bound volume or claim: another one needs new objects.

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
        kind: Kubernetes's check of the folder, for example DirectoryOrCreate; empty for none.
    """
    return {"hostPath": {"path": path, **({"type": kind} if kind else {})}}


def nfs(server: str, path: str) -> Manifest:
    """The folder `path` that the NFS server `server` exports; each node that mounts it needs an NFS client."""
    return {"nfs": {"server": server, "path": path}}


def persistent_volume(volume: Volume) -> Manifest:
    """The volume, which only its claim can be bound to.

    Its claimRef has no uid: the claim may be made anew, and the binder fills in the uid of the one that is there.
    """
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume.name, "labels": {**volume.owner, **volume.all_labels}},
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
    """Whether it is the claim of a ProvisionedClaim."""
    return (
        SKIP_AWAIT in manifest["metadata"].get("annotations", {})
        and manifest["kind"] == "PersistentVolumeClaim"
    )


def persistent_volume_claim(volume: Volume | ProvisionedClaim) -> Manifest:
    """The claim. That of a volume of ours can be bound to no other: it selects by two labels.

    Nobody waits for a provisioned claim to be bound: many classes wait for the first pod that mounts it.
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
    """The objects that the stack makes: volume and claim, the claim alone, or none."""
    if isinstance(volume, Volume):
        return [persistent_volume(volume), persistent_volume_claim(volume)]
    return [persistent_volume_claim(volume)] if isinstance(volume, ProvisionedClaim) else []

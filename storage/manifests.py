"""PersistentVolume and PersistentVolumeClaim as data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Manifest = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Volume:
    """A folder on the node, as a PersistentVolume and the claim that it is bound to beforehand.

    Parameters:
        name, claim, namespace: of the PersistentVolume, of its claim, and the claim's namespace.
        host_path: the folder on the node, an absolute path.
        host_path_type: Kubernetes's check of the folder, for example DirectoryOrCreate; empty for none.
        capacity, request: Kubernetes quantities; a hostPath enforces neither.
        access_mode, storage_class, reclaim_policy: as Kubernetes names them.
        labels: further labels of the volume; `type` and `name` are those that the claim selects by.
        owner: labels of both objects that say whose they are; never selected by.
        node: the only node that has the folder; None where all have it.
    """

    name: str
    claim: str
    namespace: str
    host_path: str
    capacity: str
    request: str
    access_mode: str
    storage_class: str
    reclaim_policy: str
    labels: Mapping[str, str] = field(default_factory=dict)
    owner: Mapping[str, str] = field(default_factory=dict)
    host_path_type: str = ""
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


def persistent_volume(volume: Volume) -> Manifest:
    """The volume, which only its claim can be bound to.

    Its claimRef has no uid: the claim may be made anew, and the binder fills in the uid of the one that is there.
    """
    kind = {"type": volume.host_path_type} if volume.host_path_type else {}
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
            "hostPath": {"path": volume.host_path, **kind},
            **({"nodeAffinity": _only_on(volume.node)} if volume.node else {}),
        },
    }


def _only_on(node: str) -> Manifest:
    """The scheduler places pods that mount the volume on this node."""
    term = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}}


def persistent_volume_claim(volume: Volume) -> Manifest:
    """The claim. It can be bound to no other volume: no provisioner serves the class, and it selects by two labels."""
    labels = {"labels": dict(volume.owner)} if volume.owner else {}
    metadata = {"name": volume.claim, "namespace": volume.namespace, **labels}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": {
            "storageClassName": volume.storage_class,
            "accessModes": [volume.access_mode],
            "resources": {"requests": {"storage": volume.request}},
            "selector": {"matchLabels": volume.selector},
        },
    }


def manifests(volume: Volume) -> list[Manifest]:
    """The volume and its claim."""
    return [persistent_volume(volume), persistent_volume_claim(volume)]

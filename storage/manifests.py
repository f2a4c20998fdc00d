"""PersistentVolume and PersistentVolumeClaim as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Manifest = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Volume:
    """A folder on the node, as a PersistentVolume and the claim that finds it by its labels.

    The claim can bind to no other volume: the selector names both labels, and no provisioner serves the class.
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
    host_path_type: str = ""
    node: str | None = None

    @property
    def all_labels(self) -> dict[str, str]:
        return {"type": "trainstack", **self.labels, "name": self.labels.get("name", self.name)}


def persistent_volume(volume: Volume) -> Manifest:
    kind = {"type": volume.host_path_type} if volume.host_path_type else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume.name, "labels": volume.all_labels},
        "spec": {
            "storageClassName": volume.storage_class,
            "capacity": {"storage": volume.capacity},
            "accessModes": [volume.access_mode],
            "persistentVolumeReclaimPolicy": volume.reclaim_policy,
            "hostPath": {"path": volume.host_path, **kind},
            **({"nodeAffinity": _only_on(volume.node)} if volume.node else {}),
        },
    }


def _only_on(node: str) -> Manifest:
    """The scheduler places pods that mount the volume on this node."""
    term = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}}


def persistent_volume_claim(volume: Volume) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": volume.claim, "namespace": volume.namespace},
        "spec": {
            "storageClassName": volume.storage_class,
            "accessModes": [volume.access_mode],
            "resources": {"requests": {"storage": volume.request}},
            "selector": {"matchLabels": volume.all_labels},
        },
    }


def manifests(volume: Volume) -> list[Manifest]:
    return [persistent_volume(volume), persistent_volume_claim(volume)]

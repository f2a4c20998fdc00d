"""Kinds of the Kubernetes API by their names, and what all objects have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Kind:
    """A kind by its names in the API. The core group's name is empty."""

    kind: str
    group: str
    version: str
    plural: str

    @classmethod
    def of(cls, kind: str, api_version: str) -> Kind:
        """A kind by its names in a manifest; the plural follows the rule of the API's own kinds."""
        group, _, version = api_version.rpartition("/")
        return cls(kind, group, version, _plural(kind.lower()))

    @property
    def api_version(self) -> str:
        """As in a manifest."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """The name for kubectl, with the group: unique among all groups."""
        return f"{self.plural}.{self.version}.{self.group}"

    @property
    def crd(self) -> str:
        """The name of the CRD that defines the kind."""
        return f"{self.plural}.{self.group}"


def _plural(kind: str) -> str:
    if kind.endswith("y"):
        return f"{kind[:-1]}ies"
    return f"{kind}es" if kind.endswith("s") else f"{kind}s"


def title(manifest: Mapping[str, Any]) -> str:
    """`PersistentVolumeClaim/kubeflow/models`, unique within a cluster."""
    metadata = manifest["metadata"]
    return "/".join(filter(None, [manifest["kind"], metadata.get("namespace"), metadata["name"]]))


def is_leaving(live: Mapping[str, Any]) -> bool:
    """Whether a live object is being deleted. A finalizer may hold it for a long time."""
    return bool(live["metadata"].get("deletionTimestamp"))


CLAIM = Kind.of("PersistentVolumeClaim", "v1")
CONFIG_MAP = Kind.of("ConfigMap", "v1")
CRD = Kind.of("CustomResourceDefinition", "apiextensions.k8s.io/v1")
DEPLOYMENT = Kind.of("Deployment", "apps/v1")
EVENT = Kind.of("Event", "v1")
JOB = Kind.of("Job", "batch/v1")
NAMESPACE = Kind.of("Namespace", "v1")
NODE = Kind.of("Node", "v1")
POD = Kind.of("Pod", "v1")
SECRET = Kind.of("Secret", "v1")
STORAGE_CLASS = Kind.of("StorageClass", "storage.k8s.io/v1")
VOLUME = Kind.of("PersistentVolume", "v1")

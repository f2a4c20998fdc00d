"""Reading and writing the common parts of Kubernetes objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pulumi_standins.kubernetes.values import Object, Unknown

PREFIX = "pulumi.com/"
AUTONAMED = PREFIX + "autonamed"
SKIP_AWAIT = PREFIX + "skipAwait"
WAIT_FOR = PREFIX + "waitFor"
TIMEOUT_SECONDS = PREFIX + "timeoutSeconds"
REPLACE_UNREADY = PREFIX + "replaceUnready"
PATCH_FORCE = PREFIX + "patchForce"
DELETION_PROPAGATION = PREFIX + "deletionPropagationPolicy"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True)
class Kind:
    """Group, version and kind; the core group is the empty string."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        """The spelling in objects: `v1`, `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.api_version}/{self.kind}"


def kind_of(obj: Object) -> Kind:
    """The object's own kind."""
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    return Kind("" if group == "core" else group, version, str(obj.get("kind", "")))


def nested(obj: Any, *path: str, default: Any = None) -> Any:
    """The value at a path of keys, or the default if a step is missing or is no map."""
    for key in path:
        if not isinstance(obj, dict) or key not in obj:
            return default
        obj = obj[key]
    return obj


def remove(obj: Any, *path: str) -> None:
    """Remove the value at a path of keys, if any."""
    parent = nested(obj, *path[:-1])
    if isinstance(parent, dict):
        parent.pop(path[-1], None)


def assign(obj: Object, value: Any, *path: str) -> None:
    """Set the value at a path of keys, and create maps on the way; an unknown on the way stays."""
    for key in path[:-1]:
        step = obj.setdefault(key, {})
        if not isinstance(step, dict):
            return
        obj = step
    obj[path[-1]] = value


def name_of(obj: Object) -> str:
    """metadata.name, or the empty string when missing or unknown."""
    name = nested(obj, "metadata", "name", default="")
    return name if isinstance(name, str) else ""


def namespace_of(obj: Object) -> str:
    """metadata.namespace, or the empty string when missing or unknown."""
    namespace = nested(obj, "metadata", "namespace", default="")
    return namespace if isinstance(namespace, str) else ""


def annotation(obj: Object, key: str) -> str:
    """An annotation's value, or the empty string when missing or unknown."""
    value = nested(obj, "metadata", "annotations", key, default="")
    return "" if isinstance(value, Unknown) else str(value)


def is_annotated(obj: Object, key: str) -> bool:
    """Whether an annotation is "true"."""
    return annotation(obj, key) == "true"


def identifier(obj: Object) -> str:
    """The resource id in the state: `namespace/name`, or `name` without a namespace."""
    namespace = namespace_of(obj)
    return f"{namespace}/{name_of(obj)}" if namespace else name_of(obj)


def split_identifier(identifier: str) -> tuple[str, str]:
    """Namespace and name of a resource id."""
    namespace, slash, name = identifier.partition("/")
    return (namespace, name) if slash else ("", namespace)


def is_crd(obj: Object) -> bool:
    """Whether the object defines custom resources."""
    return kind_of(obj).group == "apiextensions.k8s.io" and obj.get("kind") == "CustomResourceDefinition"

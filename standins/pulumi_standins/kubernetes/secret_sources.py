"""Objects of a component together with what the program gave for them, so that secrets stay secret."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from pulumi_standins.kubernetes import values, yaml_manifests
from pulumi_standins.kubernetes.secret_marks import mark_secrets
from pulumi_standins.kubernetes.values import Object, Secret

# Fields by which an object is found, also in its URN; all others of a secret object are secret.
_READABLE = {"apiVersion", "kind", "metadata"}
_READABLE_METADATA = {"name", "namespace"}


@dataclass
class Child:
    """One object of a component.

    Parameters:
        obj: the plain object.
        source: the object as the program gave it, with its secrets; a Secret where all of it is secret.
    """

    obj: Object
    source: Any

    def properties(self) -> Object:
        """The object as a resource's inputs: what was given as a secret is one, and all data of a v1/Secret."""
        marked = copy.deepcopy(self.obj)
        mark_secrets(marked, {} if isinstance(self.source, Secret) else self.source)
        if not isinstance(self.source, Secret):
            return marked
        metadata = marked.get("metadata") or {}
        return {
            **_concealed(marked, _READABLE),
            **({"metadata": _concealed(metadata, _READABLE_METADATA)} if metadata else {}),
        }


def _concealed(fields: Object, readable: set[str]) -> Object:
    return {
        key: value if key in readable or isinstance(value, Secret) else Secret(value)
        for key, value in fields.items()
    }


def elements(given: Any) -> list[Any]:
    """The elements of an argument that may be one value, several or missing; of a secret one, all are secret."""
    if given is None:
        return []
    if isinstance(given, Secret):
        return [each if isinstance(each, Secret) else Secret(each) for each in elements(given.value)]
    return list(given) if isinstance(given, list) else [given]


def with_sources(found: list[Any]) -> list[Child]:
    """The objects, with lists replaced by their items. Raises ValueError for what is no object."""
    children: list[Child] = []
    for number, source in enumerate(found, 1):
        obj = values.plain(source)
        if not isinstance(obj, dict):
            found_type = type(obj).__name__
            raise ValueError(f"a manifest consists of objects: element {number} is a {found_type}")
        if not yaml_manifests.is_list(obj):
            children.append(Child(obj, source))
        elif isinstance(source, Secret):
            children += with_sources(elements(Secret(obj["items"])))
        else:
            children += with_sources(elements(source["items"]))
    return children

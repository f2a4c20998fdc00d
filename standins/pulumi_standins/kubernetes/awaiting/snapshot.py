"""The input of a readiness rule, and its verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pulumi_standins.kubernetes.api_client import ApiClient
from pulumi_standins.kubernetes.objects import Kind, nested
from pulumi_standins.kubernetes.values import Object

POD = Kind("", "v1", "Pod")
CLAIM = Kind("", "v1", "PersistentVolumeClaim")
ENDPOINTS = Kind("", "v1", "Endpoints")
EVENT = Kind("", "v1", "Event")
REPLICA_SET = Kind("apps", "v1", "ReplicaSet")


@dataclass
class Snapshot:
    """The object of a wait and its related objects, as last seen.

    Parameters:
        obj: the object of the wait.
        client: for the few rules that read another object.
        related: objects of the rule's related kinds, by kind and uid.
        changed_at: when an object changed last, by kind and name, in seconds since the wait began.
        now: seconds since the wait began; zero for a single look.
        is_single_look: a refresh looks once and does not wait.
        is_last_look: the wait ends after this look, whatever the verdict is.
        is_gone: the object has been deleted.
    """

    obj: Object
    client: ApiClient
    related: dict[Kind, dict[str, Object]] = field(default_factory=dict)
    changed_at: dict[tuple[Kind, str], float] = field(default_factory=dict)
    now: float = 0.0
    is_single_look: bool = False
    is_last_look: bool = False
    is_gone: bool = False

    def all(self, kind: Kind) -> list[Object]:
        """All related objects of a kind, by name."""
        return sorted(
            self.related.get(kind, {}).values(), key=lambda obj: str(nested(obj, "metadata", "name"))
        )

    def quiet(self, kind: Kind, name: str) -> float:
        """Seconds since a related object last changed."""
        return self.now - self.changed_at.get((kind, name), 0.0)

    def owned(self, kind: Kind, owner: Object | None = None) -> list[Object]:
        """The related objects of a kind that `owner` owns; the owner defaults to the object itself."""
        uid = nested(owner or self.obj, "metadata", "uid")
        return [obj for obj in self.all(kind) if uid in owner_uids(obj)]

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.obj["metadata"]["name"])

    @property
    def qualified_name(self) -> str:
        """`namespace/name`; the default namespace is left out."""
        return qualified_name(self.obj)


@dataclass
class Verdict:
    """Whether the object is ready.

    Parameters:
        is_ready: the wait ends with success.
        is_hopeless: the object can no longer become ready: the wait ends with an error.
        status: one line about what is missing.
        warnings: problems, one line each; each is reported once.
        findings: lines for the error if the wait fails.
        look_again: seconds after which to judge again, also without an event.
    """

    is_ready: bool = False
    is_hopeless: bool = False
    status: str = ""
    warnings: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    look_again: float | None = None


@dataclass(frozen=True)
class Rule:
    """When objects of a kind are ready.

    Parameters:
        judge: gives the verdict on a snapshot.
        related: further kinds to watch in the object's namespace.
        seconds: the longest wait, if neither the program nor an annotation sets one.
        on_refresh: whether a refresh reports objects that are not ready.
        until_gone: the wait is for the object's deletion.
    """

    judge: Callable[[Snapshot], Verdict]
    related: tuple[Kind, ...] = ()
    seconds: float = 600.0
    on_refresh: bool = False
    until_gone: bool = False


def owner_uids(obj: Object) -> set[str]:
    """The uids of this object's owners."""
    return {owner.get("uid", "") for owner in nested(obj, "metadata", "ownerReferences", default=[]) or []}


def qualified_name(obj: Object) -> str:
    """`namespace/name`; the default namespace is left out."""
    namespace = nested(obj, "metadata", "namespace", default="")
    name = str(nested(obj, "metadata", "name", default=""))
    return f"{namespace}/{name}" if namespace not in ("", "default") else name


def condition(obj: Object, name: str) -> Object:
    """The entry of status.conditions with this type, or an empty one."""
    for entry in nested(obj, "status", "conditions", default=[]) or []:
        if entry.get("type") == name:
            found: Object = entry
            return found
    return {}


def is_observed(obj: Object) -> bool:
    """Whether the controller's status is about the current specification."""
    observed: Any = nested(obj, "status", "observedGeneration")
    return observed is not None and observed >= nested(obj, "metadata", "generation", default=0)


def number(obj: Object, *path: str, default: int = 0) -> int:
    """A number at a path; 0 if missing, because controllers leave out zeros."""
    value = nested(obj, *path, default=default)
    return value if isinstance(value, int) else default

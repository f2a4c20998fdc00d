"""Claims that Pulumi never deletes: one that somebody else made, and one whose files its class may delete with it."""

from __future__ import annotations

from collections.abc import Collection

from infra import volumes
from infra.config import ConfigError, Stack
from infra.config.errors import paragraph
from infra.config.names import quantity
from infra.config.storage_kinds import OUR_VOLUME, StorageKind
from infra.objects import adoption
from infra.objects.kinds import CLAIM, STORAGE_CLASS, Kind
from infra.objects.look import ForbiddenError, Look
from infra.objects.manifest import Manifest


def ensure_usable(stack: Stack, look: Look, own: Collection[str]) -> None:
    """Raises ConfigError where the claim of the models is not as the stack file's kind of storage needs it.

    Raises UnknownError where the claim cannot be looked at. A storage class may be one that the user may not read.

    Parameters:
        own: titles of the objects that the stack's state holds.
    """
    _Check(stack, look, own)()


class _Check:
    def __init__(self, stack: Stack, look: Look, own: Collection[str]) -> None:
        self.stack, self.look, self.own = stack, look, own
        self.wanted = volumes.models(stack)

    def __call__(self) -> None:
        """Raises ConfigError, UnknownError."""
        kind = self.stack.storage.kind
        claim, namespace = self.wanted.claim, self.wanted.namespace
        live = self.look.get(CLAIM, claim, namespace, without=adoption.ELSEWHERE)
        if not self.look.is_there:
            if kind is StorageKind.CLAIM and self.stack.cluster.kind.is_ours:
                raise _absent(self.stack, "the cluster is not there yet: begin with another kind of storage")
            return
        if kind is StorageKind.CLAIM:
            self._somebody_elses(live)
        elif kind is StorageKind.CLASS:
            self._of_class(live)
        elif kind in OUR_VOLUME and live and self._is_own() and not _is_selecting(live):
            raise self._another_name(f"it is of class {live['spec'].get('storageClassName')}")

    def _somebody_elses(self, live: Manifest | None) -> None:
        if live is None:
            raise _absent(self.stack, f"it has {self._names(CLAIM, self.wanted.namespace)}")
        if live["metadata"].get("deletionTimestamp"):
            raise self._refused(
                "claim", "a claim that stays: this one is being deleted", "name another claim"
            )
        if self._is_own() and _is_selecting(live):
            fix = "make a claim of your own under another name, and write that"
            raise self._refused("claim", "a claim of somebody else's: Pulumi would delete this one", fix)

    def _of_class(self, live: Manifest | None) -> None:
        config = self.stack.storage
        found = self._class(config.storage_class, required=live is None)
        if live is None:
            return
        spec = live["spec"]
        is_other = spec.get("storageClassName") != config.storage_class or _is_selecting(live)
        if is_other or spec["accessModes"] != [config.access_mode.value]:
            modes = ", ".join(spec["accessModes"])
            raise self._another_name(f"it is of class {spec.get('storageClassName')} with {modes}")
        now, wanted = spec["resources"]["requests"]["storage"], config.request
        can_grow = found is None or found.get("allowVolumeExpansion")
        if quantity(wanted) < quantity(now) or (quantity(wanted) > quantity(now) and not can_grow):
            allowed = f"{now}, as the claim has" + (", or more" if can_grow else ": its class lets none grow")
            raise self._refused("request", allowed, f"write `request: {now}`, or name another claim", wanted)

    def _class(self, name: str, required: bool) -> Manifest | None:
        """The storage class; None where it may not be asked for. Raises ConfigError where one is needed and absent."""
        try:
            found = self.look.get(STORAGE_CLASS, name)
        except ForbiddenError:
            return None
        if found is None and required:
            allowed = f"a storage class of the cluster: {self._names(STORAGE_CLASS)}"
            raise self._refused(
                "storageClass", allowed, "take one of those, or install its provisioner", name
            )
        return found or {}

    def _another_name(self, why: str) -> ConfigError:
        name = self.wanted.claim
        allowed = f"a claim of another name: {name} has files, and {why}"
        fix = f"write `claim: {name}-2`, which leaves {name} as it is, or take the change back"
        return self._refused("claim", allowed, fix)

    def _refused(self, key: str, allowed: str, fix: str, value: str = "") -> ConfigError:
        found = value or self.wanted.claim
        return ConfigError(paragraph(self.stack.file, f"trainstack:storage.{key}", found, allowed, fix))

    def _is_own(self) -> bool:
        return f"PersistentVolumeClaim/{self.wanted.namespace}/{self.wanted.claim}" in self.own

    def _names(self, kind: Kind, namespace: str = "") -> str:
        try:
            items = self.look.listed(kind, namespace)
        except ForbiddenError:
            return "some that you may not list"
        return ", ".join(sorted(each["metadata"]["name"] for each in items or [])) or "none"


def _absent(stack: Stack, found: str) -> ConfigError:
    allowed = f"a claim of namespace {stack.cluster.namespace}: {found}"
    fix = f"make it (kubectl --namespace {stack.cluster.namespace} apply --filename …), or name one that is there"
    return ConfigError(paragraph(stack.file, "trainstack:storage.claim", stack.claim, allowed, fix))


def _is_selecting(claim: Manifest) -> bool:
    """Whether a claim is bound to a volume that the stack made: nothing else of ours has a selector."""
    return bool(claim["spec"].get("selector"))

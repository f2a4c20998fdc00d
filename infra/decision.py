"""Nothing goes on which somebody else's object depends, and what could not be asked is not taken for absent.

No controller is taken back to an older minor version. What an update would delete is judged by its name, as Pulumi
deletes it, whoever has made it again. ADR 27.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pulumi

from infra import dependents, stack_plan, volumes
from infra.agreed import listed
from infra.clusters import selection
from infra.clusters.discovery import ClusterContents
from infra.config import ConfigError, Stack
from infra.config.errors import paragraph
from infra.config.names import quantity
from infra.config.operator import KUEUE_NAMESPACE, Install, Queueing
from infra.config.storage_kinds import OUR_VOLUME, StorageKind
from infra.objects import adoption, job_kinds
from infra.objects.adoption import Ownership
from infra.objects.job_kinds import DEFINITION, OF_API, SHARED
from infra.objects.kinds import CLAIM, CRD, NAMESPACE, STORAGE_CLASS, VOLUME, Kind
from infra.objects.labels import VERSION
from infra.objects.look import ForbiddenError, Look
from infra.objects.manifest import Manifest, title
from infra.objects.stack_state import StackState
from infra.stack_plan import Planned
from storage.manifests import Volume, persistent_volume, persistent_volume_claim

SHOWN, FEW = 10, 5
QUOTA = (job_kinds.CLUSTER_QUEUE, job_kinds.LOCAL_QUEUE, job_kinds.FLAVOR)
KINDS = {each.kind: each for each in (CLAIM, CRD, NAMESPACE, *QUOTA)}
DEFINED = {f"{DEFINITION}/{each.crd}": each for each in dependents.EVERY}
ELSEWHERE = "before a stack moves to another cluster, `make down`"
BACK = f"or take the change back; {ELSEWHERE}"
# Fields of a bound volume that Kubernetes lets a client change; any other change replaces volume and claim.
CHANGEABLE = {"capacity", "persistentVolumeReclaimPolicy", "claimRef"}
# How the upstream projects name their releases. Those of one minor version have the same fields.
RELEASE = re.compile(r"v(\d+)\.(\d+)\.\d+")
# Key, its value, what is allowed, and how to fix it.
Refusal = tuple[str, str, str, str]


@dataclass(frozen=True)
class Leaving:
    """Objects that an update deletes for one reason.

    Parameters:
        titles: `Kind/namespace/name` of each.
        keys: a user who may not look at the objects has to take back the change of these keys.
        refusal: takes the titles that exist, and the titles of others' objects that depend on them. Returns None where
            the objects may go.
    """

    titles: list[str]
    keys: str
    refusal: Callable[[list[str], list[str]], Refusal | None]


def decide(
    stack: Stack, look: Look, owned: Ownership, contents: ClusterContents, planned: Collection[Planned]
) -> bool:
    """May the plan be registered? Whether cluster and image alone are, because the state was lost.

    Raises what says why not, before anything is touched: ConfigError, ReplacementRefusedError, OthersObjectsError,
    LostObjectsError, UnknownError.

    Parameters:
        contents: what the cluster has.
    """
    objects = [each.manifest for each in planned]
    selection.ensure_old_cluster_may_go(stack, owned.held)
    stack_plan.ensure_allowed(stack, objects)
    ensure_shown(stack, planned, owned.held, is_there=not contents.problem)
    ensure_usable(stack, look, owned.held.objects)
    ensure_free(stack, look, owned.held, {title(each) for each in objects})
    alone = only_cluster(stack, look, objects, owned)
    selection.protocol(stack).ensure_replaceable(stack, owned.held)
    return alone


def ensure_shown(stack: Stack, planned: Iterable[Planned], held: StackState, *, is_there: bool) -> None:
    """Say which objects will be made that no review shows. Raises ConfigError where the stack is protected.

    Parameters:
        held: what the stack's state holds; what an earlier update has made is not new.
        is_there: whether the cluster has been asked: a preview goes on without it, and takes it for empty.
    """
    found = [each for each in stack_plan.unseen(stack, planned) if each not in held.objects]
    if not found:
        return
    told = listed(found, FEW)
    if not (stack.protected and is_there):
        pulumi.log.info(f"no review shows these objects, which a cluster without them gets: {told}")
        return
    space = f"kubectl create namespace {stack.cluster.namespace}"
    always = "have an administrator install the operator, or write `install: always` and have that reviewed"
    is_space = all(each.startswith(f"{NAMESPACE.kind}/") for each in found)
    fix = space if is_space else always
    said = f"{stack.file}: trainstack:protected is true, and this cluster lacks what no review shows: {told}"
    raise ConfigError(f"{said}\n  fix: {fix}")


def only_cluster(stack: Stack, look: Look, objects: list[Manifest], owned: Ownership) -> bool:
    """Whether only cluster and image are registered now, because the state was lost.

    With the cluster there, its objects can be looked up. A cluster that is created now holds none of them, whatever one
    of its name holds.

    Raises OthersObjectsError, LostObjectsError, UnknownError, ConfigError for a controller that is newer in the
    cluster, and what `Creation.refusal` makes, before anything is touched.
    """
    creation = selection.creation_of(stack, owned.held)
    if creation and creation.is_new:
        return False
    found = adoption.survey(look, objects, owned)
    adoption.refuse_others(found, stack.name)
    if leaving := [title(each) for each in found.live if each["metadata"].get("deletionTimestamp")]:
        pulumi.log.warn(
            f"these objects are being deleted: {', '.join(leaving)}; once they are gone, the same command makes them "
            "again; `kubectl get … --output yaml` shows the finalizers that hold one"
        )
    if unknown := ensure_not_older(stack, objects, found.live):
        pulumi.log.info(f"the version of these cannot be told, they are updated: {listed(unknown, FEW)}")
    if creation and creation.refusal:
        raise creation.refusal(owned.owner)
    return adoption.hand_over(found, owned, stack.name)


def ensure_free(stack: Stack, look: Look, held: StackState, planned: Collection[str]) -> None:
    """Raises ConfigError where the update deletes what others' objects depend on, to replace it or for good.

    Raises UnknownError where that cannot be told.

    Parameters:
        held: what the stack's state holds.
        planned: titles of what the stack registers.
    """
    for each in (
        *_namespaces(stack, held, planned),
        *_definitions(stack, held, planned),
        *_quotas(held, planned),
        *_claims(stack, held),
    ):
        without = f"take the change of {each.keys} back; {ELSEWHERE}"
        there = [name for name in each.titles if _is_there(look, name, without)]
        others = dependents.of(look, there, held.objects, without) if there else []
        if there and (refusal := each.refusal(there, others)):
            key, value, allowed, fix = refusal
            raise ConfigError(paragraph(stack.file, f"trainstack:{key}", value, allowed, fix))


def ensure_not_older(stack: Stack, planned: Iterable[Manifest], live: Iterable[Manifest]) -> list[str]:
    """Raises ConfigError where the cluster has a newer minor version of a controller than the stack brings.

    Returns the titles of live ones whose version cannot be told. They may go on: earlier programs wrote no version, and
    each program that brings a newer one does.

    Parameters:
        planned: the objects that the stack registers.
        live: those of the same titles that are in the cluster.
    """
    brought = {title(each): said for each in planned if (said := _version(each))}
    found = {title(each): _version(each) for each in live if title(each) in brought}
    minors = {name: (_minor(said), _minor(brought[name])) for name, said in found.items()}
    unknown = [name for name, both in minors.items() if not all(both)]
    newer = [name for name, (there, brings) in minors.items() if name not in unknown and there > brings]
    if newer:
        told = listed([f"{name} {found[name]}" for name in newer], SHOWN)
        ours = ", ".join(sorted({brought[name] for name in newer}))
        allowed = (
            f"what this program brings, {ours}, another one of that minor version, or an older one: a controller that "
            "is taken back may not read what a newer one has stored"
        )
        fix = (
            "go on with a commit of this project that brings the newer one; or run "
            f"`make down STACK={stack.name}` there, which keeps the models, and then this command again"
        )
        value = f"(newer in the cluster: {told})"
        raise ConfigError(paragraph(stack.file, "trainstack:operator", value, allowed, fix))
    return unknown


def _version(manifest: Manifest) -> str:
    return str((manifest["metadata"].get("labels") or {}).get(VERSION, ""))


def _minor(version: str) -> tuple[int, ...]:
    """Its first two numbers; empty where it names no release."""
    found = RELEASE.match(version)
    return tuple(map(int, found.groups())) if found else ()


def _is_there(look: Look, title_: str, without: str) -> bool:
    kind, *namespace, name = title_.split("/")
    return look.get(KINDS[kind], name, *namespace, without=without) is not None


def _namespaces(stack: Stack, held: StackState, planned: Collection[str]) -> Iterator[Leaving]:
    for each in sorted(held.objects.difference(planned)):
        if each.startswith(f"{NAMESPACE.kind}/"):
            yield Leaving(
                [each], "`cluster.namespace` or `trainstack:operator`", partial(_of_namespace, stack)
            )


def _of_namespace(stack: Stack, there: list[str], others: list[str]) -> Refusal | None:
    name = there[0].partition("/")[2]
    allowed = (
        f"a change that keeps namespace {name}, which the stack made and would delete, as long as others have "
        f"objects in it: {listed(others, SHOWN)}"
    )
    fix = f"move or delete them, {BACK}"
    key, value = ("cluster.namespace", stack.cluster.namespace)
    if name == KUEUE_NAMESPACE != value:
        key, value = "operator.queue", stack.operator.queue.value
    return (key, value, allowed, fix) if others else None


def _definitions(stack: Stack, held: StackState, planned: Collection[str]) -> Iterator[Leaving]:
    """Those of kinds of jobs, of Kueue, and of an earlier release's gangs, which others use, or the stack itself."""
    operator = stack.operator
    of_kueue = [each.crd for each in job_kinds.QUEUE_KINDS] if operator.queue is Queueing.KUEUE else []
    rows: list[tuple[str, str, tuple[Kind, ...], Collection[str]]] = [
        ("api", operator.api.value, SHARED, OF_API[operator.api].crds),
        ("queue", operator.queue.value, job_kinds.QUEUE_KINDS, of_kueue),
        ("gang", "(taken away)", job_kinds.GANG_KINDS, ()),
    ]
    for key, value, kinds, wanted in rows:
        titles = [f"{DEFINITION}/{each.crd}" for each in kinds]
        goes = [each for each in titles if each in held.objects and each not in planned]
        yield Leaving(goes, "`trainstack:operator`", partial(_of_definitions, stack, key, value, wanted))


def _of_definitions(
    stack: Stack, key: str, value: str, wanted: Collection[str], there: list[str], others: list[str]
) -> Refusal | None:
    """With `never` the operator is somebody else's; the one that there is belongs to the stack."""
    install = stack.operator.install
    kinds = [f"{DEFINED[each].kind}s" for each in there]
    is_unwanted = install is Install.NEVER and any(DEFINED[each].crd in wanted for each in there)
    if is_unwanted and key == "api":
        found = f", and those of others: {listed(others, SHOWN)}" if others else ""
        allowed = (
            f"auto or always while the definition of {' and '.join(kinds)} is the stack's: the update would delete it, "
            f"and with it the stack's own jobs{found}"
        )
        fix = (
            "write `install: auto`. To leave the operator to somebody else, "
            f"first run `make down STACK={stack.name}`, which leaves what others use, and have it installed"
        )
        return "operator.install", install.value, allowed, fix
    if is_unwanted:
        key, value = "install", install.value
    allowed = (
        f"what it was as long as others have {' or '.join(kinds)}, whose definitions "
        f"the stack made and would delete: {listed(others, SHOWN)}"
    )
    back = "or have this stack's `make up` done by the release before" if key == "gang" else BACK
    return (f"operator.{key}", value, allowed, f"let them end and delete them, {back}") if others else None


def _quotas(held: StackState, planned: Collection[str]) -> Iterator[Leaving]:
    """Queues and flavors that others use."""
    kinds = tuple(f"{each.kind}/" for each in QUOTA)
    goes = sorted(each for each in held.objects.difference(planned) if each.startswith(kinds))
    if goes:
        yield Leaving(goes, "`cluster.queue`", _of_quotas)


def _of_quotas(there: list[str], others: list[str]) -> Refusal | None:
    allowed = (
        f"a change that keeps {listed(there, SHOWN)}, which the stack made and would delete, as long as others use it: "
        f"{listed(others, SHOWN)}"
    )
    fix = f"let them end and delete them, {BACK}"
    return ("cluster.queue", "(changed)", allowed, fix) if others else None


def _claims(stack: Stack, held: StackState) -> Iterator[Leaving]:
    for each in _leaving(volumes.own_volumes(stack), held):
        yield Leaving([each], "`trainstack:storage` or `cluster.namespace`", partial(_of_claim, stack))


def _of_claim(stack: Stack, there: list[str], others: list[str]) -> Refusal | None:
    _, namespace, claim = there[0].split("/")
    moves = namespace != stack.cluster.namespace
    key, value = ("cluster.namespace", stack.cluster.namespace) if moves else ("storage", "(changed)")
    pods = [each.rpartition("/")[2] for each in others]
    allowed = f"a change that keeps claim {claim}, as long as pods of others mount it: {', '.join(pods)}"
    fix = f"end them (kubectl --namespace {namespace} delete pod {' '.join(pods)}), {BACK}"
    return (key, value, allowed, fix) if others else None


def _leaving(wanted: Collection[Volume], held: StackState) -> Iterator[str]:
    """Titles of the claims of the state that the update deletes, to replace them or for good.

    A claim without a selector is of a storage class: Pulumi never deletes that.

    Parameters:
        wanted: the volumes that the stack is to have.
    """
    by_claim = {title(persistent_volume_claim(each)): each for each in wanted}
    for each, claimed in held.storage.items():
        if each.startswith(f"{CLAIM.kind}/") and claimed.get("selector"):
            volume = by_claim.get(each)
            if volume is None or _is_replaced(volume, claimed, held):
                yield each


def _is_replaced(volume: Volume, claimed: Mapping[str, Any], held: StackState) -> bool:
    """Whether the claim goes with its volume, or is another one by now."""
    bound = {
        each: spec
        for each, spec in held.storage.items()
        if each.startswith(f"{VOLUME.kind}/") and _is_for(spec, volume)
    }
    there = bound.get(f"{VOLUME.kind}/{volume.name}")
    is_another = bool(bound) if there is None else _is_another(volume, there)
    return is_another or _differs(_by_amount(persistent_volume_claim(volume)["spec"]), _by_amount(claimed))


def _is_for(spec: Mapping[str, Any], volume: Volume) -> bool:
    bound = spec.get("claimRef") or {}
    return (bound.get("namespace"), bound.get("name")) == (volume.namespace, volume.claim)


def _is_another(volume: Volume, there: Mapping[str, Any]) -> bool:
    fixed = persistent_volume(volume)["spec"].items()
    unpinned = "nodeAffinity" in there and volume.node is None
    return unpinned or _differs({key: value for key, value in fixed if key not in CHANGEABLE}, there)


def _differs(wanted: Any, live: Any) -> bool:
    """Whether a field of `wanted` is missing or different in `live`; fields that the server filled in do not count."""
    if isinstance(wanted, dict):
        return not isinstance(live, dict) or any(_differs(wanted[key], live.get(key)) for key in wanted)
    return bool(wanted != live)


def _by_amount(claim: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of a claim with the size that it asks for in bytes: the server writes 1024Mi as 1Gi."""
    return {**claim, "resources": quantity(claim["resources"]["requests"]["storage"])}


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

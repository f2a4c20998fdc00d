"""Decides whether an update may run. An allowed update deletes no object on which others' objects depend.

If such an object cannot be read, the update is refused. No controller goes back to an older minor version. Pulumi
deletes by name. So the checks compare names, too: since the last update, somebody may have deleted an object and
created another one of the same name. ADR 27.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pulumi

from infra import agreed, dependents, stack_plan, volumes
from infra.agreed import listed
from infra.clusters import selection
from infra.clusters.discovery import ClusterContents
from infra.config import ConfigError, Stack
from infra.config.errors import not_allowed
from infra.config.names import quantity
from infra.config.operator import KUEUE_NAMESPACE, Install, Queueing
from infra.config.storage_kinds import OUR_VOLUME, StorageKind
from infra.objects import adoption, job_kinds
from infra.objects.adoption import Ownership
from infra.objects.job_kinds import DEFINITION, OF_API, SHARED
from infra.objects.kinds import CLAIM, CRD, NAMESPACE, STORAGE_CLASS, VOLUME, Kind, is_leaving, title
from infra.objects.labels import VERSION
from infra.objects.look import ForbiddenError, Look
from infra.objects.manifest import Manifest
from infra.objects.stack_state import StackState
from infra.stack_plan import Planned
from storage.manifests import Volume, persistent_volume, persistent_volume_claim

SHOWN, FEW = 10, 5
QUOTA = (job_kinds.CLUSTER_QUEUE, job_kinds.LOCAL_QUEUE, job_kinds.FLAVOR)
KINDS = {each.kind: each for each in (CLAIM, CRD, NAMESPACE, *QUOTA)}
DEFINED = {f"{DEFINITION}/{each.crd}": each for each in dependents.EVERY}
ELSEWHERE = "to move the stack to another cluster, run `make down` first"
UNDO = f"or undo the change; {ELSEWHERE}"
FIRST_KIND = (
    "use another storage.kind for the first `make up`, which creates the cluster; then create this claim"
)
UNUSED = "delete these objects once nobody needs them"
# Fields of a bound volume that a client may change. A change of any other field replaces volume and claim.
CHANGEABLE = {"capacity", "persistentVolumeReclaimPolicy", "claimRef"}
# How the upstream projects name their releases. Releases of one minor version have the same fields.
RELEASE = re.compile(r"v(\d+)\.(\d+)\.\d+")
# Key, its value, what is allowed, and the fix.
Refusal = tuple[str, str, str, str]


@dataclass(frozen=True)
class Deletion:
    """Objects that an update deletes for one reason.

    Parameters:
        titles: `Kind/namespace/name` of each.
        keys: keys of the stack file. A user who may not read the objects has to undo the change of these keys.
        refusal: takes the titles that exist, and the titles of others' objects that depend on them. Returns None if the
            objects may be deleted.
    """

    titles: list[str]
    keys: str
    refusal: Callable[[list[str], list[str]], Refusal | None]


def decide(
    stack: Stack, look: Look, owned: Ownership, contents: ClusterContents, planned: Collection[Planned]
) -> bool:
    """Decide whether the plan may be registered. Returns what `needs_two_passes` returns.

    If it may not: raises ConfigError, ReplacementRefusedError, OldObjectsError, OthersObjectsError, LostObjectsError or
    UnknownError. Nothing was touched then.

    Parameters:
        contents: what the cluster holds.
    """
    objects = [each.manifest for each in planned]
    selection.ensure_old_cluster_may_go(stack, owned.held)
    stack_plan.ensure_allowed(stack, objects)
    used = {stack.cluster.namespace, *(each["metadata"].get("namespace") for each in objects)}
    ensure_lasting(contents.leaving & used)
    ensure_shown(stack, planned, owned.held, is_there=not contents.problem)
    ensure_usable(stack, look, owned.held.objects)
    ensure_free(stack, look, owned.held, {title(each) for each in objects})
    two_passes = needs_two_passes(stack, look, objects, owned)
    selection.protocol(stack).ensure_replaceable(stack, owned.held)
    return two_passes


def ensure_shown(stack: Stack, planned: Iterable[Planned], held: StackState, *, is_there: bool) -> None:
    """Say which new objects no review shows. Raises ConfigError if the stack is protected.

    Parameters:
        held: what the stack's state holds. Objects in the state are not new.
        is_there: whether the cluster was read. A preview works without a cluster: it assumes an empty one.
    """
    found = [each for each in stack_plan.unseen(stack, planned) if each not in held.objects]
    if not found:
        return
    told = listed(found, FEW)
    if not (stack.protected and is_there):
        pulumi.log.info(f"no review shows these objects; they are created if the cluster lacks them: {told}")
        return
    space = f"kubectl create namespace {stack.cluster.namespace}"
    always = "ask an administrator to install the operator, or write `operator.install: always` and have this reviewed"
    is_space = all(each.startswith(f"{NAMESPACE.kind}/") for each in found)
    fix = space if is_space else always
    said = f"{stack.file}: trainstack:protected is true, and the cluster lacks objects that no review shows: {told}"
    raise ConfigError(f"{said}\n  fix: {fix}")


def ensure_lasting(namespaces: Collection[str]) -> None:
    """Raises ConfigError for a namespace that is being deleted: nothing can be created in it. A preview warns."""
    for name in sorted(namespaces):
        said = f"Namespace/{name} is {agreed.LEAVING}, and nothing can be created in it"
        fix = (
            "wait until the namespace is gone, then run the same command again; "
            f"`kubectl get namespace {name} --output yaml` shows what its deletion waits for"
        )
        if not pulumi.runtime.is_dry_run():
            raise ConfigError(f"{said}\n  fix: {fix}")
        pulumi.log.warn(said)


def needs_two_passes(stack: Stack, look: Look, objects: list[Manifest], owned: Ownership) -> bool:
    """Whether the state was lost, so that this pass registers only the cluster and the image.

    The second pass then reports the stack's objects in the cluster. False for a cluster that this update creates: such
    a cluster has no objects yet.

    Raises OthersObjectsError, LostObjectsError, UnknownError and the error of `Creation.refusal`. Raises ConfigError
    for a controller that is newer in the cluster, and for a namespace that is being deleted. Nothing was touched then.
    """
    creation = selection.creation_of(stack, owned.held)
    if creation and creation.is_new:
        return False
    found = adoption.survey(look, objects, owned)
    adoption.refuse_others(found, stack.name)
    leaving = [each for each in found.live if is_leaving(each)]
    ensure_lasting({each["metadata"]["name"] for each in leaving if each["kind"] == NAMESPACE.kind})
    if leaving:
        pulumi.log.warn(
            f"these objects are {agreed.LEAVING}: {', '.join(map(title, leaving))}; once they are gone, `make up` "
            "creates them again; `kubectl get … --output yaml` shows the finalizers that hold one"
        )
    if unknown := ensure_not_older(stack, objects, found.live):
        pulumi.log.info(
            f"these objects have no label with a version; the update changes them: {listed(unknown, FEW)}"
        )
    if creation and creation.refusal:
        raise creation.refusal(owned.owner)
    return adoption.report_lost(found, owned, stack.name)


def ensure_free(stack: Stack, look: Look, held: StackState, planned: Collection[str]) -> None:
    """Raises ConfigError if the update deletes or replaces an object on which others' objects depend.

    Raises UnknownError if the cluster cannot be read.

    Parameters:
        held: what the stack's state holds.
        planned: titles of the objects that the stack registers.
    """
    for each in (
        *_namespaces(stack, held, planned),
        *_definitions(stack, held, planned),
        *_quotas(held, planned),
        *_claims(stack, held),
    ):
        without = f"undo the change of {each.keys}; {ELSEWHERE}"
        there = [name for name in each.titles if _is_there(look, name, without)]
        others = dependents.of(look, there, held.objects, without) if there else []
        if there and (refusal := each.refusal(there, others)):
            key, value, allowed, fix = refusal
            raise not_allowed(stack.file, f"trainstack:{key}", value, allowed, fix)


def ensure_not_older(stack: Stack, planned: Iterable[Manifest], live: Iterable[Manifest]) -> list[str]:
    """Raises ConfigError if the cluster has a newer minor version of a controller than the stack installs.

    Returns the titles of live objects without a known version. They are older than this program: only earlier releases
    wrote no version.

    Parameters:
        planned: the objects that the stack registers.
        live: objects of the same titles in the cluster.
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
            f"in the cluster, the minor version of {ours}, which this program installs, or an older one: this "
            "program's controller may fail on objects that a newer one has stored"
        )
        fix = (
            "use a commit of this project that installs the newer version; or run "
            f"`make down STACK={stack.name}` with that commit (the models stay), and then this command again with the "
            "present commit"
        )
        value = f"(newer in the cluster: {told})"
        raise not_allowed(stack.file, "trainstack:operator", value, allowed, fix)
    return unknown


def _version(manifest: Manifest) -> str:
    return str((manifest["metadata"].get("labels") or {}).get(VERSION, ""))


def _minor(version: str) -> tuple[int, ...]:
    """The first two numbers of a release; empty if `version` names no release."""
    found = RELEASE.match(version)
    return tuple(map(int, found.groups())) if found else ()


def _is_there(look: Look, title_: str, without: str) -> bool:
    kind, *namespace, name = title_.split("/")
    return look.get(KINDS[kind], name, *namespace, without=without) is not None


def _namespaces(stack: Stack, held: StackState, planned: Collection[str]) -> Iterator[Deletion]:
    for each in sorted(held.objects.difference(planned)):
        if each.startswith(f"{NAMESPACE.kind}/"):
            yield Deletion(
                [each], "`cluster.namespace` or `trainstack:operator`", partial(_of_namespace, stack)
            )


def _of_namespace(stack: Stack, there: list[str], others: list[str]) -> Refusal | None:
    name = there[0].partition("/")[2]
    allowed = (
        f"a value that keeps namespace {name}: the stack created it and would delete it, but others have objects in "
        f"it: {listed(others, SHOWN)}"
    )
    fix = f"move or delete these objects, {UNDO}"
    key, value = ("cluster.namespace", stack.cluster.namespace)
    if name == KUEUE_NAMESPACE != value:
        key, value = "operator.queue", stack.operator.queue.value
    return (key, value, allowed, fix) if others else None


def _definitions(stack: Stack, held: StackState, planned: Collection[str]) -> Iterator[Deletion]:
    """CRDs of jobs, of Kueue and of an earlier release's gang scheduler: others or the stack may use them."""
    operator = stack.operator
    of_kueue = [each.crd for each in job_kinds.QUEUE_KINDS] if operator.queue is Queueing.KUEUE else []
    rows: list[tuple[str, str, tuple[Kind, ...], Collection[str]]] = [
        ("api", operator.api.value, SHARED, OF_API[operator.api].crds),
        ("queue", operator.queue.value, job_kinds.QUEUE_KINDS, of_kueue),
        ("gang", "(removed)", job_kinds.GANG_KINDS, ()),
    ]
    for key, value, kinds, wanted in rows:
        titles = [f"{DEFINITION}/{each.crd}" for each in kinds]
        deleted = [each for each in titles if each in held.objects and each not in planned]
        yield Deletion(deleted, "`trainstack:operator`", partial(_of_definitions, stack, key, value, wanted))


def _of_definitions(
    stack: Stack, key: str, value: str, wanted: Collection[str], there: list[str], others: list[str]
) -> Refusal | None:
    """The refusal to delete these definitions; None if they may be deleted.

    `install: never` means that somebody else installed the operator. So it is refused if the stack itself created the
    definitions of its kind of job.
    """
    install = stack.operator.install
    kinds = [f"{DEFINED[each].kind}s" for each in there]
    is_unwanted = install is Install.NEVER and any(DEFINED[each].crd in wanted for each in there)
    if is_unwanted and key == "api":
        found = f" and others' objects: {listed(others, SHOWN)}" if others else ""
        allowed = (
            f"auto or always: the stack created the definition of {' and '.join(kinds)}. The update would delete it, "
            f"and with it the stack's own jobs{found}"
        )
        fix = (
            "write `install: auto`. If somebody else is to install the operator, "
            f"first run `make down STACK={stack.name}`, which keeps what others use"
        )
        return "operator.install", install.value, allowed, fix
    if is_unwanted:
        key, value = "install", install.value
    allowed = (
        f"the earlier value: the stack created the definition of {' and '.join(kinds)} and would delete it, but "
        f"others have such objects: {listed(others, SHOWN)}"
    )
    undo = f"or run `make up STACK={stack.name}` with the earlier release" if key == "gang" else UNDO
    return (f"operator.{key}", value, allowed, f"{UNUSED}, {undo}") if others else None


def _quotas(held: StackState, planned: Collection[str]) -> Iterator[Deletion]:
    """Queues and flavors that others use."""
    kinds = tuple(f"{each.kind}/" for each in QUOTA)
    deleted = sorted(each for each in held.objects.difference(planned) if each.startswith(kinds))
    if deleted:
        yield Deletion(deleted, "`cluster.queue`", _of_quotas)


def _of_quotas(there: list[str], others: list[str]) -> Refusal | None:
    allowed = (
        f"a value that keeps {listed(there, SHOWN)}: the update would delete what the stack created, but objects of "
        f"others need it: {listed(others, SHOWN)}"
    )
    fix = f"{UNUSED}, {UNDO}"
    return ("cluster.queue", "(changed)", allowed, fix) if others else None


def _claims(stack: Stack, held: StackState) -> Iterator[Deletion]:
    for each in _deleted_claims(volumes.own_volumes(stack), held):
        yield Deletion([each], "`trainstack:storage` or `cluster.namespace`", partial(_of_claim, stack))


def _of_claim(stack: Stack, there: list[str], others: list[str]) -> Refusal | None:
    _, namespace, claim = there[0].split("/")
    moves = namespace != stack.cluster.namespace
    key, value = ("cluster.namespace", stack.cluster.namespace) if moves else ("storage", "(changed)")
    pods = [each.rpartition("/")[2] for each in others]
    allowed = f"a value that keeps claim {claim}: others' pods mount it: {', '.join(pods)}"
    fix = f"delete these pods (kubectl --namespace {namespace} delete pod {' '.join(pods)}), {UNDO}"
    return (key, value, allowed, fix) if others else None


def _deleted_claims(wanted: Collection[Volume], held: StackState) -> Iterator[str]:
    """Titles of the claims in the state that the update deletes or replaces.

    A claim without a selector gets its volume from a storage class. Pulumi never deletes such a claim.

    Parameters:
        wanted: the volumes that the stack file asks for.
    """
    by_claim = {title(persistent_volume_claim(each)): each for each in wanted}
    for each, claimed in held.storage.items():
        if each.startswith(f"{CLAIM.kind}/") and claimed.get("selector"):
            volume = by_claim.get(each)
            if volume is None or _is_replaced(volume, claimed, held):
                yield each


def _is_replaced(volume: Volume, claimed: Mapping[str, Any], held: StackState) -> bool:
    """Whether the update replaces the claim, because its volume or its own spec changed."""
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
    """Whether a field of `wanted` is missing or different in `live`. Fields that only `live` has do not count."""
    if isinstance(wanted, dict):
        return not isinstance(live, dict) or any(_differs(wanted[key], live.get(key)) for key in wanted)
    return bool(wanted != live)


def _by_amount(claim: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of a claim, with the requested size as a number: the server writes 1024Mi as 1Gi."""
    return {**claim, "resources": quantity(claim["resources"]["requests"]["storage"])}


def ensure_usable(stack: Stack, look: Look, own: Collection[str]) -> None:
    """Raises ConfigError if the claim of the models does not fit the stack file's kind of storage.

    Raises UnknownError if the claim cannot be read. The user need not have the right to read storage classes.

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
                raise _absent(self.stack, "the cluster does not exist yet", FIRST_KIND)
            return
        if kind is StorageKind.CLAIM:
            self._given(live)
        elif kind is StorageKind.CLASS:
            self._of_class(live)
        elif kind in OUR_VOLUME and live and self._is_own() and not _is_selecting(live):
            raise self._another_name(f"its storage class is {live['spec'].get('storageClassName')}")

    def _given(self, live: Manifest | None) -> None:
        """Check a claim that the stack uses and did not create."""
        if live is None:
            space = self.wanted.namespace
            create = (
                f"create it (kubectl --namespace {space} apply --filename FILE), or name an existing claim"
            )
            raise _absent(self.stack, f"it has {self._names(CLAIM, space)}", create)
        if is_leaving(live):
            raise self._refused("claim", "a claim that is not being deleted", "name another claim")
        if self._is_own() and _is_selecting(live):
            fix = "create a claim of another name, and write this name"
            allowed = "a claim that the stack did not create: Pulumi would delete this one"
            raise self._refused("claim", allowed, fix)

    def _of_class(self, live: Manifest | None) -> None:
        config = self.stack.storage
        found = self._class(config.storage_class, required=live is None)
        if live is None:
            return
        spec = live["spec"]
        is_other = spec.get("storageClassName") != config.storage_class or _is_selecting(live)
        if is_other or spec["accessModes"] != [config.access_mode.value]:
            modes = ", ".join(spec["accessModes"])
            raise self._another_name(f"its storage class is {spec.get('storageClassName')}, with {modes}")
        now, wanted = spec["resources"]["requests"]["storage"], config.request
        can_grow = found is None or found.get("allowVolumeExpansion")
        if quantity(wanted) < quantity(now) or (quantity(wanted) > quantity(now) and not can_grow):
            more = " or more" if can_grow else ": its storage class does not allow a larger one"
            allowed = f"the claim's size, {now}{more}"
            raise self._refused("request", allowed, f"write `request: {now}`, or name another claim", wanted)

    def _class(self, name: str, required: bool) -> Manifest | None:
        """The storage class; None if the user may not read it. Raises ConfigError if it is `required` and absent."""
        try:
            found = self.look.get(STORAGE_CLASS, name)
        except ForbiddenError:
            return None
        if found is None and required:
            allowed = f"a storage class of the cluster: {self._names(STORAGE_CLASS)}"
            raise self._refused("storageClass", allowed, "use one of these classes, or create this one", name)
        return found or {}

    def _another_name(self, why: str) -> ConfigError:
        name = self.wanted.claim
        allowed = f"another claim name: claim {name} holds files, and {why}"
        fix = f"write `claim: {name}-2`, which leaves claim {name} unchanged, or undo the change"
        return self._refused("claim", allowed, fix)

    def _refused(self, key: str, allowed: str, fix: str, value: str = "") -> ConfigError:
        found = value or self.wanted.claim
        return not_allowed(self.stack.file, f"trainstack:storage.{key}", found, allowed, fix)

    def _is_own(self) -> bool:
        return f"PersistentVolumeClaim/{self.wanted.namespace}/{self.wanted.claim}" in self.own

    def _names(self, kind: Kind, namespace: str = "") -> str:
        try:
            items = self.look.listed(kind, namespace)
        except ForbiddenError:
            return "(you may not list them)"
        return ", ".join(sorted(each["metadata"]["name"] for each in items or [])) or "none"


def _absent(stack: Stack, found: str, fix: str) -> ConfigError:
    allowed = f"an existing claim of namespace {stack.cluster.namespace}: {found}"
    return not_allowed(stack.file, "trainstack:storage.claim", stack.claim, allowed, fix)


def _is_selecting(claim: Manifest) -> bool:
    """Whether a claim is bound to a volume that the stack created: only such claims of ours have a selector."""
    return bool(claim["spec"].get("selector"))

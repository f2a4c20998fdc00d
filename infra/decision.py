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

from infra import dependents, volumes
from infra.agreed import listed
from infra.config import ConfigError, Stack
from infra.config.errors import paragraph
from infra.config.names import quantity
from infra.config.operator import Gang, Install
from infra.objects import job_kinds
from infra.objects.job_kinds import DEFINITION, OF_API, SHARED
from infra.objects.kinds import CLAIM, CRD, NAMESPACE, VOLUME
from infra.objects.labels import VERSION
from infra.objects.look import Look
from infra.objects.manifest import Manifest, title
from infra.objects.stack_state import StackState
from infra.training_operator.plan import Plan
from storage.manifests import Volume, persistent_volume, persistent_volume_claim

SHOWN = 10
KINDS = {each.kind: each for each in (CLAIM, CRD, NAMESPACE)}
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


def ensure_free(stack: Stack, look: Look, held: StackState, planned: Plan) -> None:
    """Raises ConfigError where the update deletes what others' objects depend on, to replace it or for good.

    Raises UnknownError where that cannot be told.

    Parameters:
        held: what the stack's state holds.
        planned: what the stack registers.
    """
    for each in (
        *_namespaces(stack, held, planned),
        *_definitions(stack, held, planned),
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


def _namespaces(stack: Stack, held: StackState, planned: Plan) -> Iterator[Leaving]:
    for each in sorted(held.objects - {f"{NAMESPACE.kind}/{name}" for name in planned.namespaces}):
        if each.startswith(f"{NAMESPACE.kind}/"):
            yield Leaving(
                [each], "`cluster.namespace` or `operator.namespace`", partial(_of_namespace, stack)
            )


def _of_namespace(stack: Stack, there: list[str], others: list[str]) -> Refusal | None:
    name = there[0].partition("/")[2]
    allowed = (
        f"a change that keeps namespace {name}, which the stack made and would delete, as long as others have "
        f"objects in it: {listed(others, SHOWN)}"
    )
    fix = f"move or delete them, {BACK}"
    return ("cluster.namespace", stack.cluster.namespace, allowed, fix) if others else None


def _definitions(stack: Stack, held: StackState, planned: Plan) -> Iterator[Leaving]:
    """Those of kinds of jobs, and those of gangs, which others use, or the stack itself."""
    operator = stack.operator
    of_jobs = OF_API[operator.api].crds
    of_gangs = job_kinds.GANG_CRDS if operator.gang is not Gang.NONE else ()
    for key, value, kinds, wanted, registered in (
        ("api", operator.api.value, SHARED, of_jobs, planned.crd),
        ("gang", operator.gang.value, job_kinds.GANG_KINDS, of_gangs, planned.installs_scheduler),
    ):
        goes = [f"{DEFINITION}/{each.crd}" for each in kinds if not (registered and each.crd in wanted)]
        refusal = partial(_of_definitions, stack, key, value, wanted)
        yield Leaving([each for each in goes if each in held.objects], "`trainstack:operator`", refusal)


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
    return (f"operator.{key}", value, allowed, f"let them end and delete them, {BACK}") if others else None


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

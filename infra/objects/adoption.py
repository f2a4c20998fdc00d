"""Finds planned objects that exist in the cluster already, and decides whose they are.

Objects with this stack's mark that are missing in its state are reported to `make up`, which puts them into the state.
Others' objects are refused by name, before anything is touched.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from infra import agreed
from infra.objects.job_kinds import NAMES, RUNTIME
from infra.objects.kinds import Kind, title
from infra.objects.labels import OWNER, STACK, is_copied, owner_of
from infra.objects.look import Look
from infra.objects.manifest import Manifest
from infra.objects.stack_state import StackState

SHOWN = 10
NEVER = "write `operator.install: never` if somebody else has installed the operator"
ELSEWHERE = "use a namespace where you have it (`cluster.namespace`)"

WITHOUT = {
    **dict.fromkeys(("PersistentVolumeClaim", *NAMES, RUNTIME), ELSEWHERE),
    **dict.fromkeys(("ResourceQuota", "LimitRange"), "leave `cluster.quota` and `cluster.limitRange` out"),
    **dict.fromkeys(
        ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"), "write `cluster.guard: none`"
    ),
    **dict.fromkeys(
        ("ClusterQueue", "LocalQueue", "ResourceFlavor", "WorkloadPriorityClass"), "leave `cluster.queue` out"
    ),
    "Job": "write `storage.prepare: false`",
    "Namespace": (
        "use a namespace with your claim (`storage: {kind: claim, claim: NAME}`); "
        f"for the operator's namespace, {NEVER}"
    ),
    "NetworkPolicy": "leave `job.egress` out",
    "PersistentVolume": "write `storage: {kind: claim, claim: NAME}`, and use claims for data (`job.data`)",
    "Secret": f"name an existing Secret (`secret:`) in `job.env`; for the operator's Secret, {NEVER}",
}
"""Kind of an object that the user may not read -> how the stack avoids that kind. For other kinds: NEVER."""


class OthersObjectsError(agreed.ProgramError):
    """The cluster has objects of these names that are not this stack's."""


class LostObjectsError(agreed.ProgramError):
    """The cluster has objects of this stack that are not in its state."""


@dataclass(frozen=True)
class Ownership:
    """Decides whether an object in the cluster is this stack's.

    Parameters:
        held: what the stack's state holds.
        owner: the id in this stack's mark; None if it has none yet.
        own_cluster: whether this clone created the cluster. Then an object without an owner id is this stack's.
        given: whether the user passed the id (ADOPT). Then copied labels count, too: the user has seen the objects.
    """

    held: StackState
    owner: str | None
    own_cluster: bool
    given: bool = False

    def is_ours(self, live: Manifest) -> bool:
        """Whether a live object is this stack's: by the state, else by its mark. A copied mark does not count."""
        carried = owner_of(live)
        if is_copied(live):
            return self.given and carried == self.owner
        if title(live) in self.held.objects or not carried:
            return title(live) in self.held.objects or self.own_cluster
        return carried == self.owner


@dataclass(frozen=True)
class Survey:
    """The objects in the cluster that have the names of planned objects.

    Parameters:
        lost: this stack's objects that are not in its state.
        others: others' objects.
        live: all of these objects.
    """

    lost: tuple[Manifest, ...] = ()
    others: tuple[Manifest, ...] = ()
    live: tuple[Manifest, ...] = ()


def survey(look: Look, planned: Iterable[Manifest], ownership: Ownership) -> Survey:
    """Look up each planned object, also objects in the state. Raises UnknownError.

    The refresh of the same update treats each object of these names as the stack's. But the program still reads the
    state from before the refresh: Pulumi writes the refreshed state only with the first change.
    """
    live = list(_live(look, planned))
    return Survey(
        lost=tuple(
            each for each in live if ownership.is_ours(each) and title(each) not in ownership.held.objects
        ),
        others=tuple(each for each in live if not ownership.is_ours(each)),
        live=tuple(live),
    )


def refuse_others(found: Survey, stack: str) -> None:
    """Raises OthersObjectsError that names others' objects, and the fix."""
    if not found.others:
        return
    ids = sorted({carried for each in found.others if (carried := owner_of(each))})
    own = (
        f"; if this stack created them and lost its state: make up STACK={stack} ADOPT={ids[0]}"
        if ids
        else ""
    )
    raise OthersObjectsError(
        f"the cluster already has these objects, and they are not stack {stack}'s; nothing was touched:\n"
        f"{_listed(found.others)}\n"
        f"  fix: choose another namespace or other names, or delete the objects yourself{own}"
    )


def report_lost(
    found: Survey, ownership: Ownership, stack: str, environment: Mapping[str, str] = os.environ
) -> bool:
    """Tell `make up` which objects are missing in the state. True if this pass registers only cluster and image.

    Raises LostObjectsError, before anything is touched, for objects that `make up` has to put into the state.
    """
    if not found.lost or environment.get(agreed.ADOPTING) == "yes":
        return False
    file = environment.get(agreed.LOST_OBJECTS)
    without_state = not ownership.held.cluster
    if file:
        Path(file).write_text(json.dumps({"objects": [] if without_state else found.lost}))
    if file and without_state and ownership.owner:
        return True
    back = f" ADOPT={ownership.owner or secrets.token_hex(8)}" if without_state else ""
    raise LostObjectsError(
        f"these objects are stack {stack}'s, and its state lacks them; nothing was touched:\n"
        f"{_listed(found.lost)}\n"
        f"  fix: make up STACK={stack}{back} puts them into the state"
    )


def _listed(objects: Iterable[Manifest]) -> str:
    lines = [f"  {title(each)} ({_whose(each)})" for each in objects]
    return "\n".join(lines[:SHOWN] + ([f"  and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []))


def _whose(live: Manifest) -> str:
    labels = live["metadata"].get("labels") or {}
    if STACK not in labels:
        return "without a mark"
    copied = "; Pulumi did not write these labels, so the object is a copy" if is_copied(live) else ""
    return f"stack {labels[STACK]}, owner {labels.get(OWNER, 'unknown')}{copied}"


def _live(look: Look, planned: Iterable[Manifest]) -> Iterator[Manifest]:
    for each in planned:
        kind, metadata = Kind.of(each["kind"], each["apiVersion"]), each["metadata"]
        place = metadata.get("namespace") or ""
        live = look.get(kind, metadata["name"], place, without=WITHOUT.get(kind.kind, NEVER))
        if live is not None:
            yield {**live, "apiVersion": each["apiVersion"], "kind": each["kind"]}

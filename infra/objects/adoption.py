"""Objects that the program is about to make and that are in the cluster already: whose are they?

Objects with this stack's mark that its state has lost are handed to `make up`, which puts them into the state. Anybody
else's are refused by name, before anything is touched.
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
from infra.objects.kinds import Kind
from infra.objects.labels import OWNER, STACK, is_copied
from infra.objects.look import Look
from infra.objects.manifest import Manifest, title
from infra.objects.stack_state import StackState

SHOWN = 10
NEVER = "write `operator.install: never`, where somebody else has installed the operator"
ELSEWHERE = "take a namespace where you have it (`cluster.namespace`)"

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
    "Namespace": f"take one that has your claim (`storage: {{kind: claim, claim: …}}`); for the operator's, {NEVER}",
    "NetworkPolicy": "leave `job.egress` out",
    "PersistentVolume": "write `storage: {kind: claim, claim: …}` and data (`job.data`) in claims",
    "Secret": f"name a Secret that is there (`secret:`) in `job.env`; for the operator's, {NEVER}",
}
"""Kind of an object that may not be looked at -> how a stack does without that look; of the others NEVER says it."""


class OthersObjectsError(agreed.ProgramError):
    """Objects of these names are in the cluster, and are not this stack's."""


class LostObjectsError(agreed.ProgramError):
    """Objects of this stack are in the cluster and not in its state."""


@dataclass(frozen=True)
class Ownership:
    """Whose is an object in the cluster?

    Parameters:
        held: what the stack's state holds.
        owner: the id in this stack's mark; None where it has none yet.
        own_cluster: whether this clone made the cluster, so that an object without an id in it is this stack's.
        given: whether the user has given the id back. Then copied labels are believed, too: the user has seen the list.
    """

    held: StackState
    owner: str | None
    own_cluster: bool
    given: bool = False

    def is_ours(self, live: Manifest) -> bool:
        """Whether a live object is this stack's: by the state, else by its mark. A copy of the mark is neither."""
        carried = owner_of(live)
        if is_copied(live):
            return self.given and carried == self.owner
        if title(live) in self.held.objects or not carried:
            return title(live) in self.held.objects or self.own_cluster
        return carried == self.owner


@dataclass(frozen=True)
class Survey:
    """Live objects of planned names.

    Parameters:
        lost: this stack's own that the state does not hold.
        others: anybody else's.
        live: all of them.
    """

    lost: tuple[Manifest, ...] = ()
    others: tuple[Manifest, ...] = ()
    live: tuple[Manifest, ...] = ()


def survey(look: Look, planned: Iterable[Manifest], ownership: Ownership) -> Survey:
    """Look for each planned object, also for those that the state holds. Raises UnknownError.

    The refresh of the same update has taken whatever is there under their names for the stack's, and the program reads
    the state of before: Pulumi writes what a refresh has found with the first change alone.
    """
    live = list(_live(look, planned))
    return Survey(
        lost=tuple(
            each for each in live if ownership.is_ours(each) and title(each) not in ownership.held.objects
        ),
        others=tuple(each for each in live if not ownership.is_ours(each)),
        live=tuple(live),
    )


def owner_of(live: Manifest) -> str | None:
    """The owner's id that an object carries. Objects of release 0.1 carry none."""
    return (live["metadata"].get("labels") or {}).get(OWNER)


def refuse_others(found: Survey, stack: str) -> None:
    """Raises OthersObjectsError that names each object of `others`, and what can be done."""
    if not found.others:
        return
    ids = sorted({carried for each in found.others if (carried := owner_of(each))})
    own = (
        f"; if this stack made them and its state was lost: make up STACK={stack} ADOPT={ids[0]}"
        if ids
        else ""
    )
    raise OthersObjectsError(
        f"these objects are in the cluster and not this stack's ({stack}); nothing was touched:\n"
        f"{_listed(found.others)}\n"
        f"  fix: take another namespace or other names, or remove them yourself{own}"
    )


def report_lost(
    found: Survey, ownership: Ownership, stack: str, environment: Mapping[str, str] = os.environ
) -> bool:
    """Tell `make up` which objects its state has lost. True where only the cluster is to be registered first.

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
        f"these objects are this stack's ({stack}) and not in its state; nothing was touched:\n"
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
    copied = "; Pulumi has not written these labels: a copy" if is_copied(live) else ""
    return f"stack {labels[STACK]}, owner {labels.get(OWNER, 'unknown')}{copied}"


def _live(look: Look, planned: Iterable[Manifest]) -> Iterator[Manifest]:
    for each in planned:
        kind, metadata = Kind.of(each["kind"], each["apiVersion"]), each["metadata"]
        place = metadata.get("namespace") or ""
        live = look.get(kind, metadata["name"], place, without=WITHOUT.get(kind.kind, NEVER))
        if live is not None:
            yield {**live, "apiVersion": each["apiVersion"], "kind": each["kind"]}

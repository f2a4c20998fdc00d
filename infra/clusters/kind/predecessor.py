"""Decides, as data, what the creation of a kind cluster does with an existing cluster of the same name.

Only a cluster whose creation was never finished is deleted without asking. A finished cluster may hold other people's
work, also if this stack's state does not know it.
"""

from __future__ import annotations

from enum import StrEnum

from infra import paths
from infra.clusters import replacement
from infra.clusters.kind import ownership
from infra.clusters.kind.ownership import Standing
from infra.clusters.replacement import ReplacementRefusedError
from infra.objects import owner


class Step(StrEnum):
    """The next step. CLEAR: delete the existing nodes, then create the cluster."""

    MAKE = "make"
    CLEAR = "clear"
    ADOPT = "adopt"
    REFUSE = "refuse"


UNASKED = {
    Standing.NONE: Step.MAKE,
    Standing.UNFINISHED: Step.CLEAR,
    Standing.REMAINS: Step.CLEAR,
    Standing.FINISHED: Step.REFUSE,
    Standing.UNTOLD: Step.REFUSE,
    Standing.OTHERS: Step.REFUSE,
}
# With REPLACE_CLUSTER=yes.
REPLACING = UNASKED | {Standing.FINISHED: Step.CLEAR}
# With ADOPT=<owner id>, which counts more than REPLACE_CLUSTER: the user says that the cluster has the stack's objects.
ADOPTING = UNASKED | {
    Standing.UNFINISHED: Step.REFUSE,
    Standing.FINISHED: Step.ADOPT,
    Standing.UNTOLD: Step.ADOPT,
}


def step(standing: Standing) -> Step:
    """The step for what exists (`standing`). The user's variables ADOPT and REPLACE_CLUSTER may change it."""
    steps = ADOPTING if owner.id_to_adopt() else REPLACING if replacement.is_allowed() else UNASKED
    return steps[standing]


def refusal(
    standing: Standing, cluster: str, stack: str, owner_id: str | None = None, lose: str = ""
) -> Exception:
    """The error for the step REFUSE. Nothing was touched.

    Parameters:
        owner_id: the id in the mark of the stack's objects, if it is known.
        lose: the command that deletes the cluster anyway; by default the command that replaces it.
    """
    if standing is Standing.OTHERS:
        return ownership.foreign(cluster)
    if standing is Standing.UNFINISHED:
        return ReplacementRefusedError(
            f"the creation of kind cluster {cluster} was never finished, so there is nothing to take over; nothing was "
            f"touched.\n  fix: leave ADOPT out; `make up STACK={stack}` creates the cluster again"
        )
    if standing is Standing.UNTOLD:
        why = (
            f"its nodes mount {paths.marker(cluster)}, which is missing or damaged, so it is unknown whether the "
            "cluster's creation was finished"
        )
        lose = by_hand(cluster)
    else:
        why = "its creation was finished"
        lose = lose or replacement.command(stack)
    shown = f"; `make status STACK={stack}` shows the owner id" if owner_id is None else ""
    return ReplacementRefusedError(
        f"kind cluster {cluster} exists, but the state of stack {stack} does not have it: {why}; nothing was "
        f"touched.\n{replacement.held(cluster, stack)}\n"
        f"  fix: to keep the cluster: make up STACK={stack} ADOPT={owner_id or '<owner>'}{shown}\n"
        "  fix: if another backend has the state: set the PULUMI_BACKEND_URL that the stack was created with\n"
        f"  fix: to delete the cluster with its contents: {lose}"
    )


def by_hand(cluster: str) -> str:
    """The command that deletes a cluster with all its contents."""
    return f"kind delete cluster --name {cluster}"

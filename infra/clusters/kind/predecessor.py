"""What the creation of a kind cluster does with a cluster of that name that is there already: decided here, as data.

Only a cluster whose creation was never finished is deleted unasked. A finished one may hold other people's work,
whatever this stack's state knows of it.
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
    """What is done. CLEAR: delete what is there, then make the cluster."""

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
# With ADOPT=<owner's id>, whatever else is asked for: the user says that the cluster holds the stack's objects.
ADOPTING = UNASKED | {
    Standing.UNFINISHED: Step.REFUSE,
    Standing.FINISHED: Step.ADOPT,
    Standing.UNTOLD: Step.ADOPT,
}


def step(standing: Standing) -> Step:
    """What is done where `standing` says what is there, by what the user asks for in the environment."""
    steps = ADOPTING if owner.id_to_adopt() else REPLACING if replacement.is_allowed() else UNASKED
    return steps[standing]


def refusal(
    standing: Standing, cluster: str, stack: str, owner_id: str | None = None, lose: str = ""
) -> Exception:
    """The error of what would have deleted a cluster, and has touched nothing.

    Parameters:
        owner_id: the id in the mark of the stack's objects, where it is known.
        lose: the command that deletes the cluster all the same; by default the one that makes it again.
    """
    if standing is Standing.OTHERS:
        return ownership.foreign(cluster)
    if standing is Standing.UNFINISHED:
        return ReplacementRefusedError(
            f"the creation of kind cluster {cluster} was never finished: it holds nothing to take over; nothing was "
            f"touched.\n  fix: leave ADOPT out; `make up STACK={stack}` makes the cluster again"
        )
    if standing is Standing.UNTOLD:
        why = (
            f"its nodes mount {paths.marker(cluster)}, and that file is missing or damaged, so that nobody can say "
            "whether its creation was finished"
        )
        lose = by_hand(cluster)
    else:
        why = "its creation was finished"
        lose = lose or replacement.command(stack)
    shown = f"; `make status STACK={stack}` shows the id of the owner" if owner_id is None else ""
    return ReplacementRefusedError(
        f"kind cluster {cluster} is there, and the state of stack {stack} does not hold it: {why}; nothing was "
        f"touched.\n{replacement.held(cluster, stack)}\n"
        f"  fix: to take it over as it is: make up STACK={stack} ADOPT={owner_id or '<owner>'}{shown}\n"
        "  fix: where another backend has the state: set the PULUMI_BACKEND_URL that the stack was made with\n"
        f"  fix: to lose it with all that it holds: {lose}"
    )


def by_hand(cluster: str) -> str:
    """The command that deletes a cluster, whatever is in it."""
    return f"kind delete cluster --name {cluster}"

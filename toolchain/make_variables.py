"""What was given on make's command line: make itself ignores a name that it does not know, and so would we.

With a misspelt STACK, `make down` would take the stack `dev` down.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence

from toolchain.commands import ALL
from toolchain.options import MAKE_GIVEN, MAKE_GOALS

# What every target takes.
COMMON = ("ARGS", "PYTHON")
FIRST_GOAL = ALL[0].name
# A makefile of the user's may call ours, and hands its own variables on: only what looks like one of ours is a mistake.
LIKENESS = 0.75


def _by_goal() -> Iterator[tuple[str, tuple[str, ...]]]:
    for command in ALL:
        taken = tuple(variable for option in command.options for variable in option.variable.split())
        for goal in [goal for _, goal in command.goals] or [command.name]:
            yield goal, taken


TAKEN = dict(_by_goal())
"""Target of make -> the variables that it takes, but for those that all take."""
KNOWN = sorted({*COMMON, *(name for names in TAKEN.values() for name in names)})


def refusal(environment: Mapping[str, str]) -> str | None:
    """Why what make was given cannot be meant; None where it can, or where make has not called."""
    goals = environment.get(MAKE_GOALS, "").split() or [FIRST_GOAL]
    for name in sorted(environment.get(MAKE_GIVEN, "").split()):
        if told := _wrong(name, goals):
            return told
    return None


def _wrong(name: str, goals: Sequence[str]) -> str | None:
    taken = sorted({*COMMON, *(each for goal in goals for each in TAKEN.get(goal, KNOWN))})
    if name in taken:
        return None
    said = f"`make {' '.join(goals)}` takes no {name}"
    if name in KNOWN:
        return f"{said}; it takes {', '.join(taken)}"
    meant = difflib.get_close_matches(name.upper(), KNOWN, n=1, cutoff=LIKENESS)
    return f"{said}; do you mean {meant[0]}?" if meant else None

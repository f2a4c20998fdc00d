"""Decides whether a stack's own cluster may be replaced: says what is lost, and refuses if it has others' objects.

A changed key of the stack file, or a lost node, causes a replacement. A newer node image is used only if the user asks
for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from infra import agreed, paths
from infra.agreed import ProgramError
from infra.clusters import foreign_objects
from infra.objects.api import ApiAddress
from infra.objects.look import Look, UnknownError

SHOWN = 10
DEFAULT = "the default of kind"
SHORT_S = 5.0
"""How long to wait, in seconds, for an API server whose answer only adds details to an error."""


class ReplacementRefusedError(ProgramError):
    """The cluster would be replaced, and others' objects would be lost."""


def is_allowed(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the user allows replacement: `make up REPLACE_CLUSTER=yes`."""
    return environment.get(agreed.REPLACE_CLUSTER) == "yes"


def newer_image(stack: str, made_with: str | None, now: str | None) -> str:
    """A line about another available node image; empty if there is none."""
    if made_with == now:
        return ""
    return (
        f"the cluster keeps its node image, {made_with or DEFAULT}; {now or DEFAULT} is available.\n"
        f"  to replace the cluster and use that image: {command(stack)}"
    )


def ensure_allowed(name: str, stack: str, reasons: list[str], say: Callable[[str], None]) -> None:
    """Say what is lost if the cluster `name` is replaced for `reasons`.

    Raises ReplacementRefusedError, before anything is touched, if the cluster has objects that are not `stack`'s.
    """
    why = ", ".join(reasons)
    try:
        others = foreign_objects.titles(Look(ApiAddress(str(paths.kubeconfig(name))), say), stack)
    except UnknownError as error:
        if not is_allowed():
            raise ReplacementRefusedError(
                f"cluster {name} would be replaced ({why}), but its objects cannot be listed: {error}\n"
                f"  fix: undo a change of the stack file; to replace the cluster and lose all its objects: "
                f"{command(stack)}"
            ) from None
        others = []
    if others and not is_allowed():
        raise ReplacementRefusedError(
            f"cluster {name} would be replaced ({why}), but it has objects that are not stack "
            f"{stack}'s:\n{_listed(others)}\n"
            f"  fix: save them, or undo a change of the stack file; to replace the cluster and lose them: "
            f"{command(stack)}"
        )
    lost = f"\n  lost with it:\n{_listed(others)}" if others else ""
    say(
        f"cluster {name} is replaced ({why}): the stack's objects are created again, pods' logs are lost; "
        f"models and data stay: they are folders of this machine{lost}"
    )


def held(name: str, stack: str) -> str:
    """Lines about objects in the cluster `name` that are not `stack`'s, or why they cannot be listed."""
    try:
        asked = Look(ApiAddress(str(paths.kubeconfig(name))), lambda _: None, limit_s=SHORT_S)
        others = foreign_objects.titles(asked, stack)
    except UnknownError as error:
        return f"  its objects cannot be listed now: {error}"
    if not others:
        return f"  it has only objects of stack {stack}"
    return f"  it has objects that are not stack {stack}'s:\n{_listed(others)}"


def command(stack: str) -> str:
    """The command with which the user asks to replace the cluster."""
    return f"make up STACK={stack} REPLACE_CLUSTER=yes (plain pulumi: {agreed.REPLACE_CLUSTER}=yes)"


def _listed(titles: list[str]) -> str:
    more = [f"and {len(titles) - SHOWN} more"] if len(titles) > SHOWN else []
    return "\n".join(f"    {title}" for title in [*titles[:SHOWN], *more])

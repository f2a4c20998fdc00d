"""May a stack's own cluster be replaced? Says what will be lost, and refuses while it holds others' objects.

Only a changed key of the stack file asks for a replacement. A newer node image waits until somebody asks for it.
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
SHORT_S = 5.0
"""Patience with an API server whose answer only makes an error say more."""


class ReplacementRefusedError(ProgramError):
    """The cluster would be replaced, and what is not ours would be lost."""


def is_allowed(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the user allows replacement: `make up REPLACE_CLUSTER=yes`."""
    return environment.get(agreed.REPLACE_CLUSTER) == "yes"


def newer_image(stack: str, made_with: str | None, now: str | None) -> str:
    """The line that says that another node image is there; empty where there is none."""
    if made_with == now:
        return ""
    return (
        f"the cluster runs node image {made_with or 'of kind'}, and {now or 'that of kind'} is there: it is kept.\n"
        f"  to make the cluster anew with it: {command(stack)}"
    )


def ensure_allowed(name: str, stack: str, reasons: list[str], say: Callable[[str], None]) -> None:
    """Say what a replacement of the cluster `name` for `reasons` costs.

    Raises ReplacementRefusedError, before anything is touched, where the cluster holds objects that are not
    `stack`'s.
    """
    why = ", ".join(reasons)
    try:
        others = foreign_objects.titles(Look(ApiAddress(str(paths.kubeconfig(name))), say), stack)
    except UnknownError as error:
        if not is_allowed():
            raise ReplacementRefusedError(
                f"cluster {name} would be replaced ({why}), and its objects cannot be listed: {error}\n"
                f"  fix: undo the change; to lose them all the same: {command(stack)}"
            ) from None
        others = []
    if others and not is_allowed():
        raise ReplacementRefusedError(
            f"cluster {name} would be replaced ({why}), and these objects in it are not stack "
            f"{stack}'s:\n{_listed(others)}\n"
            f"  fix: save them or undo the change; to lose them: {command(stack)}"
        )
    lost = f"\n  lost with it:\n{_listed(others)}" if others else ""
    say(
        f"cluster {name} is replaced ({why}): its objects are made again, pods' logs go; "
        f"models and data are folders of this machine and stay{lost}"
    )


def held(name: str, stack: str) -> str:
    """Lines that say what the cluster `name` holds that is not `stack`'s, as far as it can be asked now."""
    try:
        asked = Look(ApiAddress(str(paths.kubeconfig(name))), lambda _: None, limit_s=SHORT_S)
        others = foreign_objects.titles(asked, stack)
    except UnknownError as error:
        return f"  its objects cannot be listed now: {error}"
    if not others:
        return f"  it holds no objects but stack {stack}'s"
    return f"  it holds objects that are not stack {stack}'s:\n{_listed(others)}"


def command(stack: str) -> str:
    """How the user asks for the replacement of the cluster."""
    return f"make up STACK={stack} REPLACE_CLUSTER=yes (plain pulumi: {agreed.REPLACE_CLUSTER}=yes)"


def _listed(titles: list[str]) -> str:
    more = [f"and {len(titles) - SHOWN} more"] if len(titles) > SHOWN else []
    return "\n".join(f"    {title}" for title in [*titles[:SHOWN], *more])

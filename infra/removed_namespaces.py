"""Refuses a change that leaves a namespace of the stack's behind while others have objects in it."""

from __future__ import annotations

from collections.abc import Collection

from infra import other_users
from infra.config import ConfigError, Stack
from infra.config.errors import paragraph
from infra.objects.kinds import NAMESPACE
from infra.objects.look import Look
from infra.objects.stack_state import StackState

SHOWN = 10
WITHOUT = (
    "take the change of `cluster.namespace` or `operator.namespace` back; "
    "before a stack moves to another cluster, `make down`"
)


def ensure_empty(stack: Stack, look: Look, held: StackState, planned: Collection[str]) -> None:
    """Raises ConfigError where the update would delete a namespace that holds others' objects.

    Raises UnknownError where that cannot be told.

    Parameters:
        held: what the stack's state holds.
        planned: names of the namespaces that the stack is to have.
    """
    made = (each.partition("/")[2] for each in held.objects if each.startswith(f"{NAMESPACE.kind}/"))
    for name in sorted(set(made) - set(planned)):
        # By its name, as Pulumi deletes it, whoever has made it again.
        if look.get(NAMESPACE, name, without=WITHOUT) is None:
            continue
        if others := other_users.in_namespace(look, name, held.objects, WITHOUT):
            raise ConfigError(_refusal(stack, name, others))


def _refusal(stack: Stack, namespace: str, others: list[str]) -> str:
    more = f" and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
    allowed = (
        f"a change that keeps namespace {namespace}, which the stack made and would delete, as long as others have "
        f"objects in it: {', '.join(others[:SHOWN])}{more}"
    )
    fix = "move or delete them, or take the change back"
    return paragraph(stack.file, "trainstack:cluster.namespace", stack.cluster.namespace, allowed, fix)

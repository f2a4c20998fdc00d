"""Refuses a change of `operator.api` or `operator.gang` that takes away kinds of jobs of which others have some."""

from __future__ import annotations

from infra import other_users
from infra.config import ConfigError, Stack
from infra.config.errors import paragraph
from infra.config.operator import Gang
from infra.objects import gangs
from infra.objects.api import ApiAddress
from infra.objects.job_kinds import DEFINITION, OF_API, SHARED
from infra.objects.kinds import Kind
from infra.objects.stack_state import StackState

SHOWN = 10


def ensure_unused(stack: Stack, address: ApiAddress, held: StackState) -> None:
    """Raises ConfigError where the update would delete a definition of which others have objects, and these with it.

    A missing cluster is not asked. One that cannot be listed is not taken for empty.

    Parameters:
        held: what the stack's state holds.
    """
    if not address.is_there:
        return
    operator = stack.operator
    wants_gangs = operator.gang is not Gang.NONE
    for key, value, kinds, kept in (
        ("api", operator.api.value, SHARED, OF_API[operator.api].crds),
        ("gang", operator.gang.value, gangs.KINDS, gangs.CRDS if wants_gangs else ()),
    ):
        left = [each for each in kinds if each.crd not in kept and f"{DEFINITION}/{each.crd}" in held.objects]
        if others := other_users.jobs_of(address, left, held.objects) if left else []:
            raise _refused(stack, f"trainstack:operator.{key}", value, left, others)


def _refused(stack: Stack, key: str, value: str, left: list[Kind], others: list[str]) -> ConfigError:
    more = f" and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
    allowed = (
        f"what it was as long as others have {' or '.join(each.kind + 's' for each in left)}, whose definitions "
        f"the stack made and would delete: {', '.join(others[:SHOWN])}{more}"
    )
    fix = "let them end and delete them, or take the change back"
    return ConfigError(paragraph(stack.file, key, value, allowed, fix))

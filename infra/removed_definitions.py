"""Refuses a change of section `operator` that takes away kinds of jobs which others, or the stack itself, use."""

from __future__ import annotations

from collections.abc import Collection

from infra import other_users
from infra.config import ConfigError, Stack
from infra.config.errors import paragraph
from infra.config.operator import Gang, Install
from infra.objects import gangs
from infra.objects.job_kinds import DEFINITION, OF_API, SHARED
from infra.objects.kinds import CRD, Kind
from infra.objects.look import Look
from infra.objects.stack_state import StackState
from infra.training_operator.plan import Plan

SHOWN = 10
WITHOUT = (
    "take the change of `trainstack:operator` back; before a stack moves to another cluster, `make down`"
)


def ensure_unused(stack: Stack, look: Look, held: StackState, planned: Plan) -> None:
    """Raises ConfigError where the update would delete a definition of which there are objects, and these with it.

    Raises UnknownError where that cannot be told.

    Parameters:
        held: what the stack's state holds.
        planned: what the stack registers.
    """
    operator = stack.operator
    of_jobs = OF_API[operator.api].crds
    of_gangs = gangs.CRDS if operator.gang is not Gang.NONE else ()
    for key, value, kinds, wanted, registered in (
        ("api", operator.api.value, SHARED, of_jobs, planned.crd),
        ("gang", operator.gang.value, gangs.KINDS, of_gangs, planned.installs_scheduler),
    ):
        left = _left(look, held, kinds, wanted if registered else ())
        if not left:
            continue
        others = other_users.jobs_of(look, left, held.objects, WITHOUT)
        unwanted = operator.install is Install.NEVER and any(each.crd in wanted for each in left)
        if unwanted and kinds is SHARED:
            raise _own_jobs_refused(stack, left, others)
        if others and unwanted:
            raise _refused(stack, "install", operator.install.value, left, others)
        if others:
            raise _refused(stack, key, value, left, others)


def _left(look: Look, held: StackState, kinds: Collection[Kind], kept: Collection[str]) -> list[Kind]:
    """Those of `kinds` whose definitions the update deletes: by name, as Pulumi does, whoever has made them again."""
    made = [each for each in kinds if each.crd not in kept and f"{DEFINITION}/{each.crd}" in held.objects]
    return [each for each in made if look.get(CRD, each.crd, without=WITHOUT) is not None]


def _own_jobs_refused(stack: Stack, left: list[Kind], others: list[str]) -> ConfigError:
    """With `never` the operator is somebody else's; the one that there is belongs to the stack."""
    found = f", and those of others: {_listed(others)}" if others else ""
    allowed = (
        f"auto or always while the definition of {_kinds(left, 'and')} is the stack's: the update would delete it, "
        f"and with it the stack's own jobs{found}"
    )
    fix = (
        "write `install: auto`. To leave the operator to somebody else, "
        f"first run `make down STACK={stack.name}`, which leaves what others use, and have it installed"
    )
    return ConfigError(
        paragraph(stack.file, "trainstack:operator.install", Install.NEVER.value, allowed, fix)
    )


def _refused(stack: Stack, key: str, value: str, left: list[Kind], others: list[str]) -> ConfigError:
    allowed = (
        f"what it was as long as others have {_kinds(left, 'or')}, whose definitions "
        f"the stack made and would delete: {_listed(others)}"
    )
    fix = "let them end and delete them, or take the change back"
    return ConfigError(paragraph(stack.file, f"trainstack:operator.{key}", value, allowed, fix))


def _kinds(left: list[Kind], word: str) -> str:
    return f" {word} ".join(f"{each.kind}s" for each in left)


def _listed(others: list[str]) -> str:
    return ", ".join(others[:SHOWN]) + (f" and {len(others) - SHOWN} more" if len(others) > SHOWN else "")

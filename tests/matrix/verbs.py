"""What a user runs on a stack, of a project of the tests': `pulumi preview`, and `make up`, `down`, `status`, `drift`.

The toolchain's own steps run in this process. Replaced is what is about this clone and this machine: set-up, engine,
and the folder of the stack files.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

from infra import dependents
from infra.config import cluster_access
from infra.objects.api import ApiAddress
from infra.objects.look import Look, UnknownError
from tests.matrix.hurried_program import ANSWER_S
from tests.matrix.project import AppliedProject
from toolchain import stack_files
from toolchain.checks import drift
from toolchain.operating import (
    backend,
    environment,
    program_calls,
    pulumi_cli,
    pulumi_output,
    setup,
    stack_locks,
    status,
    up,
)
from toolchain.steps import SetupError


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit status, and what it told by an error. What it printed is the test's to capture."""

    status: int
    told: str = ""


def preview(project: AppliedProject) -> Ended:
    """`pulumi preview`."""
    done = project.pulumi("preview", "--stack", project.stack)
    return Ended(done.returncode, done.stdout)


def _make(run: Callable[[str], int | None]) -> Callable[[AppliedProject], Ended]:
    def ended(project: AppliedProject) -> Ended:
        with _toolchain(project):
            try:
                return Ended(run(project.stack) or 0)
            except SetupError as error:
                return Ended(1, str(error))

    return ended


# No stack of the tests' is protected.
def _up(stack: str) -> None:
    variables = environment.for_stack({}, stack)
    up._update(variables, stack, pulumi_cli.deployment(variables, stack), lambda: None)


def _down(stack: str) -> None:
    up.down(stack, lambda _: None)


VERBS: dict[str, Callable[[AppliedProject], Ended]] = {
    "up": _make(_up),
    "preview": preview,
    "down": _make(_down),
    "status": _make(status.status),
    "drift": _make(drift.drift),
}


@contextmanager
def _toolchain(project: AppliedProject) -> Iterator[None]:
    def set_up(*_: object, **__: object) -> dict[str, str]:
        return dict(project.environment)

    def nothing(*_: object, **__: object) -> dict[str, Any]:
        return {}

    def users(_: object, __: str, own: list[str]) -> dict[str, Any]:
        asked = Look(ApiAddress(project.environment["KUBECONFIG"]), lambda line: print(line, file=sys.stderr))
        try:
            api = cluster_access.valid_sections(project.stack_file).operator.api
            return dependents.users(replace(asked, limit_s=0, answer_s=ANSWER_S), own, api)
        except UnknownError as error:
            raise SetupError(str(error)) from None  # as program_calls makes it of what the module says

    with pytest.MonkeyPatch.context() as changed:
        for name, value in project.environment.items():
            changed.setenv(name, value)
        changed.setattr(stack_files, "STACKS", project.stack_file.parent)
        changed.setattr(pulumi_cli, "ROOT", project.folder)
        # A command of its own says again what one before it has said.
        changed.setattr(pulumi_output, "_reader", replace(pulumi_output._reader, earlier=set(), said=[]))
        changed.setattr(environment, "load", set_up)
        changed.setattr(environment, "for_stack", set_up)
        changed.setattr(setup, "project_lock", nullcontext)
        changed.setattr(setup, "prepare", set_up)
        changed.setattr(setup, "prepare_operators", nothing)
        changed.setattr(backend, "prepare", nothing)
        changed.setattr(up, "engine", SimpleNamespace(ensure=nothing, stop=nothing))
        changed.setattr(program_calls, "repair_cluster", nothing)
        changed.setattr(stack_locks, "end_orphans", nothing)
        changed.setattr(program_calls, "dependents", users)
        yield

"""Runs a runbook's blocks in a clone, as a reader would type them."""

from __future__ import annotations

import re
import shutil
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace

from tests.e2e.project import Project, clean_environment
from tests.e2e.waiting import HANG_S
from tests.runbooks import situations
from tests.runbooks.shell import Shell
from tests.runbooks.situations import Rehearsal
from tests.runbooks.transcript import Block, Command, Runbook, trimmed

# A cluster's name, alone or as kind names its containers; the stacks' volumes begin with the same words.
_DEFAULT_NAME = re.compile(r"\btrainstack-(dev|next)\b(?!-models|-data)")
ENVIRONMENT = 'eval "$(make -s env STACK=dev)"'


@dataclass(frozen=True)
class Result:
    commands: int
    seconds: float


def rehearse(runbook: Runbook, project: Project, sets_up: bool = False) -> Result:
    """Run the carried blocks in their order; a difference is an AssertionError that shows both sides.

    `sets_up`: the runbook itself makes the shell that README's first line gives to the others.
    """
    began, count = time.monotonic(), 0
    with ExitStack() as cleanup:
        cleanup.callback(_take_second_stack_away, project)
        shell = Shell(project.root, clean_environment())
        cleanup.callback(shell.close)
        if not sets_up:
            status, said = shell.run(ENVIRONMENT, HANG_S)
            assert status == 0, said
        rehearsal = Rehearsal(project, cleanup)
        for block in runbook.carried:
            for name in block.given:
                situations.GIVEN[name](rehearsal)
            for command in block.commands:
                _check(runbook, block, _here(command, project.cluster), shell)
                count += 1
    return Result(count, time.monotonic() - began)


def _take_second_stack_away(project: Project) -> None:
    """What a rehearsal that failed on the way to another cluster has left, else in the way of all tests after it."""
    second = replace(project, stack="next")
    if second.stack_file.exists():
        second.make("down")
        second.run("pulumi", "stack", "rm", second.stack, "--yes", check=False)
        second.stack_file.unlink(missing_ok=True)
        shutil.rmtree(second.models, ignore_errors=True)


def _here(command: Command, cluster: str) -> Command:
    """`command` with this clone's cluster in place of the default names that the runbooks show."""

    def own(text: str) -> str:
        return _DEFAULT_NAME.sub(lambda found: cluster if found[1] == "dev" else f"{cluster}-next", text)

    expected = tuple(own(line) for line in command.expected)
    return Command(own(command.text), expected, command.status, command.line)


def _check(runbook: Runbook, block: Block, command: Command, shell: Shell) -> None:
    status, said = shell.run(command.text, HANG_S)
    assert command.accepts(status, said), "\n".join(
        [
            f"docs/runbooks/{runbook.name}.md:{command.line}, section {block.section}:",
            f"$ {command.text}",
            f"--- expected, exit status {command.status}",
            *command.expected,
            f"--- actual, exit status {status}",
            trimmed(said),
        ]
    )

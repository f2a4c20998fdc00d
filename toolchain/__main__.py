"""`python3 -m toolchain <verb>`, which the Makefile calls; in a shell with `make env`, it is `trainstack <verb>`."""

from __future__ import annotations

import argparse
import difflib
import os
import signal
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from infra import agreed
from toolchain import failure, interruption, next_command
from toolchain.commands import ALL, BY_NAME
from toolchain.machine import processes
from toolchain.operating import pulumi_output
from toolchain.options import MAKE_GIVEN, MAKE_GOALS, VERBOSE
from toolchain.paths import ROOT
from toolchain.steps import SetupError, kill_children, say

# Variables that every target takes.
COMMON = ("ARGS", "PYTHON")
FIRST_GOAL = ALL[0].name
# A user's makefile may call ours, and pass on its own variables. So an unknown name is a mistake only if it is similar
# to one of ours.
LIKENESS = 0.75


def _by_goal() -> Iterator[tuple[str, tuple[str, ...]]]:
    for command in ALL:
        taken = tuple(variable for option in command.options for variable in option.variable.split())
        for goal in [goal for _, goal in command.goals] or [command.name]:
            yield goal, taken


TAKEN = dict(_by_goal())
"""Target of make -> the variables that it takes, without COMMON."""
KNOWN = sorted({*COMMON, *(name for names in TAKEN.values() for name in names)})


class Parser(argparse.ArgumentParser):
    """Prints an error in the same form as our other errors."""

    verb = ""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(2, f"error: {message}\n  next: {next_command.help_of(self.verb)}\n")


class Version(argparse.Action):
    """Prints the version of this clone, and ends."""

    def __init__(self, **given: Any) -> None:
        super().__init__(nargs=0, **given)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        print(project["name"], project["version"])
        parser.exit()


def parser() -> Parser:
    top = Parser(
        prog=next_command.name(),
        description="Set this machine up and work with a stack.",
        epilog="Each command explains itself with --help. `make` has the same commands as targets.",
    )
    top.add_argument("--version", action=Version, help="show the version and exit")
    verbs = top.add_subparsers(dest="verb", required=True, metavar="COMMAND")
    for command in ALL:
        verb = verbs.add_parser(
            command.name,
            help=command.does,
            description=f"{command.does[0].upper()}{command.does[1:]}.",
            epilog=f"example: {next_command.name()} {command.example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        verb.verb = command.name
        for option in command.options:
            option.add_to(verb)
    return top


def dispatch(asked: argparse.Namespace) -> int:
    if vars(asked).get(VERBOSE.name):
        pulumi_output.be_verbose()
    return BY_NAME[asked.verb].run(asked) or 0


def read(arguments: list[str] | None) -> argparse.Namespace:
    """Parse the command line. A wrong command line ends the process."""
    top = parser()
    asked, unknown = top.parse_known_args(arguments)
    if unknown:
        top.verb = asked.verb
        top.error(f"unknown arguments: {' '.join(unknown)}")
    if arguments is None and (told := refusal(os.environ)):
        top.verb = asked.verb
        top.error(told)
    return asked


def refusal(environment: Mapping[str, str]) -> str | None:
    """Why a variable on make's command line is a mistake; None if all are right, or if make is not the caller.

    make itself ignores unknown names. With a misspelt STACK, `make down` would destroy the stack dev.
    """
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
    return f"{said}; did you mean {meant[0]}?" if meant else None


def main(arguments: list[str] | None = None) -> int:
    asked = read(arguments)
    for name in agreed.ASTRAY:
        os.environ.pop(name, None)
    # SIGTERM works like Ctrl-C: running commands end, and Pulumi finishes running operations.
    interruption.catch(hasten=kill_children)
    processes.end_with_parent(signal.SIGTERM)  # end with make: otherwise we would continue unseen
    try:
        return dispatch(asked)
    except KeyboardInterrupt:
        interruption.ignore()
        say(f"interrupted; the same command continues from here\n  next: {next_command.again(asked)}")
        return 130
    except Exception as error:
        told = error if isinstance(error, SetupError) else failure.sentence(error)
        say(f"error: {told}{next_command.after(told, asked)}")
        return BY_NAME[asked.verb].failed


if __name__ == "__main__":
    sys.exit(main())

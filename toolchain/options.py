"""Options of the command line as data: argparse, make's variables and the shell's completion are made of them."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from enum import Enum
from typing import Any

MAKE_GIVEN, MAKE_GOALS = "TRAINSTACK_MAKE_GIVEN", "TRAINSTACK_MAKE_GOALS"
"""Variables in which the Makefile tells the names that were given on make's command line, and the targets."""


class Offer(Enum):
    """What a shell completes the value with."""

    STACKS = "stacks"
    RUNS = "runs"
    FILES = "files"


@dataclass(frozen=True)
class Option:
    """One option; one without dashes is an operand.

    Parameters:
        flag: as it is written, `--stack`.
        help: a line about it; may be empty where the name says it all.
        variable: make's variable for it, several for an operand with a number; empty where ARGS hands it on.
        default: the value where none is given.
        choices: all values that it has; empty where they cannot be listed.
        short: as it is written with one letter.
        is_switch: whether it has no value.
        number: as argparse's nargs.
        bare: the value of the option that is written without one.
        metavar: what the help calls the value.
        offer: what a shell completes the value with, beside `choices`.
    """

    flag: str
    help: str = ""
    variable: str = ""
    default: str | None = ""
    choices: tuple[str, ...] = ()
    short: str = ""
    is_switch: bool = False
    number: int | str | None = None
    bare: str | None = None
    metavar: str | None = None
    offer: Offer = Offer.FILES

    @property
    def name(self) -> str:
        """The attribute of argparse's namespace."""
        return self.flag.lstrip("-").replace("-", "_")

    @property
    def is_operand(self) -> bool:
        return not self.flag.startswith("-")

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Make it an argument of `parser`."""
        if self.is_switch:
            names = [name for name in (self.short, self.flag) if name]
            parser.add_argument(*names, action="store_true", help=self.help)
            return
        keywords: dict[str, Any] = {"help": self.help, "metavar": self.metavar, "nargs": self.number}
        keywords["const"] = self.bare
        if not self.is_operand:
            keywords |= {"default": self.default, "choices": self.choices or None}
        parser.add_argument(self.flag, **{key: value for key, value in keywords.items() if value is not None})


STACK = Option(
    "--stack", "whose file is stacks/Pulumi.<stack>.yaml", "STACK", default="dev", offer=Offer.STACKS
)
JSON = Option("--json", "for programs, with all that is known", is_switch=True)
VERBOSE = Option("--verbose", "show Pulumi's own output", short="-v", is_switch=True)
PYTEST = Option("pytest", "arguments for pytest, behind --", number="*")

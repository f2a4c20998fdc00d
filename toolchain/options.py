"""Options of the command line as data, for argparse, make's variables and the shell's completion."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from toolchain.paths import MODELS, STACKS

MAKE_GIVEN, MAKE_GOALS = "TRAINSTACK_MAKE_GIVEN", "TRAINSTACK_MAKE_GOALS"
"""In these variables, the Makefile passes the names that were set on make's command line, and the targets."""


class Offer(Enum):
    """What a shell offers as completion of the value."""

    STACKS = "stacks"
    RUNS = "runs"
    FILES = "files"


@dataclass(frozen=True)
class Option:
    """One option, or an operand if `flag` has no dashes.

    Parameters:
        flag: the option, for example `--stack`.
        help: a one-line description; may be empty if the name is clear.
        variable: make's variable for the option; several if the operand has a `number`; empty if ARGS passes it on.
        default: the value if none is given.
        choices: all possible values; empty if they cannot be listed.
        short: the same option with one letter.
        is_switch: whether it has no value.
        number: argparse's nargs.
        bare: the value if the option is given without a value.
        metavar: the name of the value in the help.
        offer: what a shell offers as completion, besides `choices`.
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
        """Add this option to `parser`."""
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
    "--stack", "the stack: <stack> in stacks/Pulumi.<stack>.yaml", "STACK", default="dev", offer=Offer.STACKS
)
JSON = Option("--json", "print JSON, with all details", is_switch=True)
VERBOSE = Option("--verbose", "show Pulumi's own output", short="-v", is_switch=True)
PYTEST = Option("pytest", "arguments for pytest, after --", number="*")

# bash lists stacks and runs at each completion, so that it offers new stacks and runs at once.
SCRIPT = """\
_trainstack_stacks() {{
  local file
  for file in {stacks}/Pulumi.*.yaml; do
    file="${{file##*/Pulumi.}}"
    [ "$file" = "*.yaml" ] || echo "${{file%.yaml}}"
  done
}}
_trainstack_runs() {{
  local folder
  for folder in {models}/*/runs/*/ {models}/*/sweep/runs/*/; do
    folder="${{folder%/}}"
    [ "${{folder##*/}}" = "*" ] || echo "${{folder##*/}}"
  done
}}
_trainstack() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" offered=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    offered={commands}
  else
    case "${{COMP_WORDS[1]}} $before" in
{cases}
    esac
  fi
  mapfile -t COMPREPLY < <(compgen -W "$offered" -- "$word")
}}
complete -o bashdefault -o default -F _trainstack trainstack"""
FOUND = {Offer.STACKS: "$(_trainstack_stacks)", Offer.RUNS: "$(_trainstack_runs)"}


def completion(commands: Mapping[str, Sequence[Option]]) -> str:
    """A script for bash's `source`. It completes commands, options, values, and existing stacks and runs.

    Parameters:
        commands: the options of each command, by its name.
    """
    return SCRIPT.format(
        stacks=shlex.quote(str(STACKS)),
        models=shlex.quote(str(MODELS)),
        commands=shlex.quote(" ".join(commands)),
        cases="\n".join(line for name, options in commands.items() for line in _cases(name, options)),
    )


def _cases(name: str, options: Sequence[Option]) -> list[str]:
    """After an option, offer its values; elsewhere in the command, its options and operands."""
    valued = [each for each in options if not each.is_operand and not each.is_switch]
    lines = [f'      {shlex.quote(f"{name} {each.flag}")}) offered="{_values(each)}" ;;' for each in valued]
    words = [each.flag for each in options if not each.is_operand] + ["--help"]
    words += [_values(each) for each in options if each.is_operand and _values(each)]
    return [*lines, f'      {shlex.quote(f"{name} ")}*) offered="{" ".join(words)}" ;;']


def _values(option: Option) -> str:
    return " ".join(filter(None, option.choices)) or FOUND.get(option.offer, "")

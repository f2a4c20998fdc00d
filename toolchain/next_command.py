"""The last line of every error: the next command to try, in the form that the user has used."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from toolchain.commands import BY_NAME, Command
from toolchain.options import STACK, Option
from toolchain.steps import SetupError

NAME = "trainstack"
# A fix that already contains a command: in backticks, where keys and their values stand too, or as plain text.
_SAID = re.compile(
    rf"`[\w./=-]+ [^`]+`|\b(?:sudo|git|docker) [\w-]|\bmake (?:{'|'.join(map(re.escape, BY_NAME))})\b|\bpython3 -m "
)


def name() -> str:
    """The name of the command line that the user has typed."""
    return NAME if Path(sys.argv[0]).name == NAME else "python3 -m toolchain"


def after(error: SetupError, asked: argparse.Namespace) -> str:
    """The line for `error`; empty if the error's fix already contains a command.

    After a fix in words, the line names the same command again. Without a fix, it names a command that shows more. If
    a word of the command is wrong, it names the command with the likely word, or the help.
    """
    if _SAID.search(error.fix):
        return ""
    if error.instead:
        wrong, *meant = error.instead
        return f"\n  next: {again(asked, {wrong: meant[0]}) if meant else help_of(asked.verb)}"
    return f"\n  next: {again(asked) if error.fix else look(asked)}"


def again(asked: argparse.Namespace, instead: Mapping[str, str] = MappingProxyType({})) -> str:
    """The same command again, with the words of `instead` replaced."""
    given = {
        name: instead.get(value, value) if isinstance(value, str) else value
        for name, value in vars(asked).items()
    }
    return shown(BY_NAME[asked.verb], given)


def look(asked: argparse.Namespace) -> str:
    """The command that shows more: `status` of the command's stack, else `doctor`, else the command's help."""
    command = BY_NAME[asked.verb]
    if STACK in command.options and asked.verb != "status":
        return shown(BY_NAME["status"], {"stack": asked.stack})
    if asked.verb != "doctor":
        return shown(BY_NAME["doctor"], {})
    return help_of(asked.verb)


def help_of(verb: str) -> str:
    """The command that explains `verb`; the general help if `verb` is not a command."""
    return f"{name()} {verb} --help" if verb in BY_NAME else f"{name()} --help"


def shown(command: Command, given: Mapping[str, Any]) -> str:
    """`command` with the `given` values: a make target if this was called by make, else a shell command."""
    if os.environ.get("MAKELEVEL") and command.has_target:
        return _as_make(command, given)
    return shlex.join([*name().split(), command.name, *_words(command.options, given)])


def _as_make(command: Command, given: Mapping[str, Any]) -> str:
    goal, handed_on = command.name, [each for each in command.options if not each.variable]
    if command.goals:
        goal = dict(command.goals)[given[command.options[0].name]]
        handed_on.remove(command.options[0])
    words = ["make", goal]
    for option in command.options:
        for variable, value in zip(option.variable.split(), _values(option, given), strict=False):
            words.append(f"{variable}={shlex.quote(value)}")
    arguments = shlex.join(_words(handed_on, given)).removeprefix("-- ")
    return " ".join([*words, *([f"ARGS={shlex.quote(arguments)}"] if arguments else [])])


def _words(options: Sequence[Option], given: Mapping[str, Any]) -> list[str]:
    """The options whose value is not the default, then the operands."""
    words: list[str] = []
    for option in (each for each in options if not each.is_operand):
        if option.is_switch:
            words += [option.flag] if given.get(option.name) else []
        else:
            words += [word for value in _values(option, given) for word in (option.flag, value)]
    operands = [value for each in options if each.is_operand for value in _values(each, given)]
    return [*words, *(["--", *operands] if operands else [])]


def _values(option: Option, given: Mapping[str, Any]) -> list[str]:
    """The given values of `option`; none for its default."""
    value = given.get(option.name)
    if isinstance(value, list):
        return [str(each) for each in value]
    return [] if value in (None, "", option.default) else [str(value)]

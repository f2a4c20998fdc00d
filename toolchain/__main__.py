"""`python3 -m toolchain <verb>`, in the shell of `make env` `trainstack <verb>`: what the Makefile's targets call."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from typing import NoReturn

from toolchain import failure, interruption, make_variables, next_command
from toolchain.commands import ALL, BY_NAME
from toolchain.machine import processes
from toolchain.steps import SetupError, kill_children, say


class Parser(argparse.ArgumentParser):
    """Ends an error as every other error of ours ends."""

    verb = ""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(2, f"error: {message}\n  next: {next_command.help_of(self.verb)}\n")


def parser() -> Parser:
    top = Parser(
        prog=next_command.name(),
        description="Set this machine up and work with a stack.",
        epilog="Each command explains itself with --help. `make` has the same commands as targets.",
    )
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
    return BY_NAME[asked.verb].run(asked) or 0


def read(arguments: list[str] | None) -> argparse.Namespace:
    """What is asked for. Ends the process where that cannot be understood."""
    top = parser()
    asked, unknown = top.parse_known_args(arguments)
    if unknown:
        top.verb = asked.verb
        top.error(f"unknown: {' '.join(unknown)}")
    if arguments is None and (told := make_variables.refusal(os.environ)):
        top.verb = asked.verb
        top.error(told)
    return asked


def main(arguments: list[str] | None = None) -> int:
    asked = read(arguments)
    # A polite kill ends as Ctrl-C does: running commands are ended, Pulumi finishes what it has begun.
    interruption.catch(hasten=kill_children)
    processes.end_with_parent(signal.SIGTERM)  # make's end is ours: nobody would see what we go on doing
    try:
        return dispatch(asked)
    except KeyboardInterrupt:
        interruption.ignore()
        say(
            "interrupted; the same command takes up where this one stopped"
            f"\n  next: {next_command.again(asked)}"
        )
        return 130
    except Exception as error:
        told = error if isinstance(error, SetupError) else failure.sentence(error)
        say(f"error: {told}{next_command.after(told, asked)}")
        return BY_NAME[asked.verb].failed


if __name__ == "__main__":
    sys.exit(main())

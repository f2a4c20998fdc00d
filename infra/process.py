"""Runs the command line tools that the dynamic resources need."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from infra import agreed

TAIL_LINES = 25
_given: ContextVar[Mapping[str, str]] = ContextVar("variables", default=os.environ)


def variables() -> Mapping[str, str]:
    """The environment variables for commands: those of this process, or the names that `given` has set."""
    return _given.get()


@contextmanager
def given(names: Mapping[str, str]) -> Iterator[None]:
    """Inside the block, in this thread, `variables` returns `names`: toolchain/ passes a stack's variables."""
    token = _given.set(names)
    try:
        yield
    finally:
        _given.reset(token)


class CommandError(agreed.ProgramError):
    """A command failed. The text has the command and the last lines of its output."""


def output(*command: str, stdin: str | None = None, env: Mapping[str, str] | None = None) -> str:
    """Standard output of `command`. Raises CommandError if it fails or is not found."""
    try:
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, env={**environment(), **(env or {})}
        )
    except FileNotFoundError:
        raise _not_installed(command) from None
    if done.returncode:
        raise CommandError(_failure(command, done.returncode, done.stdout + done.stderr))
    return done.stdout


@contextmanager
def path_for_libraries() -> Iterator[None]:
    """Inside the block, os.environ has the PATH of `variables`: some libraries search os.environ for programs."""
    before = os.environ.get("PATH", os.defpath)
    os.environ["PATH"] = variables().get("PATH", before)
    try:
        yield
    finally:
        os.environ["PATH"] = before


def environment() -> dict[str, str]:
    """The variables of a child process: `variables` without agreed.ASTRAY, and with agreed.KUBECTL."""
    kept = {name: value for name, value in variables().items() if name not in agreed.ASTRAY}
    return {**agreed.KUBECTL, **kept}


def pipe(source: Sequence[str], target: Sequence[str]) -> None:
    """`source | target`. Raises CommandError with the last lines of the failed command.

    If `target` ends early, the pipe is closed, so that `source` ends, too. Otherwise it would wait for ever to write.
    """
    try:
        with (
            tempfile.TemporaryFile() as complaints,
            subprocess.Popen(source, stdout=subprocess.PIPE, stderr=complaints, env=environment()) as writing,
        ):
            assert writing.stdout
            with writing.stdout as stream:
                read = subprocess.run(
                    target,
                    stdin=stream,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env=environment(),
                )
            written = writing.wait()
            complaints.seek(0)
            complaint = complaints.read()
    except FileNotFoundError as error:
        raise _not_installed([str(error.filename)]) from None
    # The target first: if it failed, the source failed because of it.
    for command, code, text in ((target, read.returncode, read.stdout), (source, written, complaint)):
        if code:
            raise CommandError(_failure(command, code, text.decode(errors="replace")))


def _not_installed(command: Sequence[str]) -> CommandError:
    return CommandError(f'{command[0]} is not on PATH: run `eval "$(make -s env)"`, or install it')


def _failure(command: Sequence[str], code: int, text: str) -> str:
    lines = "\n".join(text.strip().splitlines()[-TAIL_LINES:])
    return f"`{' '.join(command[:6])}` failed with code {code}:\n{lines}"

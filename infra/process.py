"""Runs the command line tools that the dynamic resources stand on."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

TAIL_LINES = 25


class CommandError(RuntimeError):
    """A command failed. The text holds the command and its last lines."""


def output(*command: str, stdin: str | None = None, env: Mapping[str, str] | None = None) -> str:
    """Standard output of `command`. Raises CommandError when it fails or cannot be found."""
    try:
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, env={**os.environ, **(env or {})}
        )
    except FileNotFoundError:
        raise CommandError(
            f'{command[0]} is not on PATH: run `eval "$(make -s env)"`, or install it'
        ) from None
    if done.returncode:
        raise CommandError(f"`{' '.join(command[:6])}` failed with code {done.returncode}:\n{tail(done)}")
    return done.stdout


def tail(done: subprocess.CompletedProcess[str]) -> str:
    lines: Sequence[str] = (done.stdout + done.stderr).strip().splitlines()
    return "\n".join(lines[-TAIL_LINES:])

"""Copies of a stack's state in our file backend, for when a full disk has torn the file itself.

Pulumi's backend of files puts what it could write in the place of the whole file (gocloud.dev/blob/fileblob: closing a
writer that has failed renames its half), and does the same to its backup.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from infra.atomic_file import write_whole
from toolchain.paths import LOCAL, STATE
from toolchain.steps import SetupError, say

PROJECT = "trainstack"
STACKS = STATE / ".pulumi" / "stacks" / PROJECT
COPIES = LOCAL / "state-copies"
DISK_FULL = "docs/runbooks/disk-full.md"
LOST_STATE = "docs/runbooks/lost-state.md"


def file(stack: str) -> Path:
    """Where Pulumi keeps the state of `stack`."""
    return STACKS / f"{stack}.json"


def read(stack: str) -> str | None:
    """The state of `stack`, or the latest whole copy of one that is torn; None where it never was up.

    Raises SetupError where nothing of it is whole.
    """
    return source.read_text() if (source := _source(stack)) else None


def heal(stack: str) -> None:
    """Put the latest whole copy in the place of a torn state, and say so. Raises SetupError as `read` does."""
    source = _source(stack)
    if source is None or source == file(stack):
        return
    made = datetime.fromtimestamp(source.stat().st_mtime)
    _write(stack, file(stack), source.read_text())
    say(
        f"the state of stack {stack} was torn, as a full disk leaves it: the copy of {made:%Y-%m-%d %H:%M:%S} "
        "is taken, and what was made since then is looked up"
    )


def keep(stack: str) -> None:
    """Copy the state before Pulumi works on it. Raises SetupError where there is no room: nothing was changed."""
    if text := read(stack):
        _write(stack, _copy(stack), text)


def _source(stack: str) -> Path | None:
    """The file itself, or its latest whole copy; None and SetupError as `read` has them."""
    if not file(stack).exists():
        return None
    if source := next(_whole(stack), None):
        return source
    raise SetupError(
        f"the state of stack {stack} is torn, and so are its copies: {file(stack)}",
        f"remove that file; {LOST_STATE} says how the stack's objects are taken over",
    )


def _copy(stack: str) -> Path:
    return COPIES / f"{stack}.json"


def _whole(stack: str) -> Iterator[Path]:
    """The file itself where it is whole, then whole copies, the latest first."""
    backup = file(stack).with_name(f"{file(stack).name}.bak")  # of the update before the last
    copies = [path for path in (backup, _copy(stack)) if path.exists()]
    for path in (file(stack), *sorted(copies, key=lambda path: path.stat().st_mtime, reverse=True)):
        try:
            json.loads(path.read_bytes())
        except (OSError, ValueError):
            continue
        yield path


def _write(stack: str, target: Path, text: str) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, text, mode=0o600)
    except OSError as error:
        raise SetupError(
            f"no room to keep the state of stack {stack}: {os.strerror(error.errno or 0)}: {target}",
            f"{DISK_FULL} says what may go; nothing was changed",
        ) from None

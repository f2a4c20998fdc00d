"""Copies of a stack's state in our file backend, in case a full disk damages the file itself.

On a full disk, Pulumi's file backend replaces the whole file by the part that it could write
(gocloud.dev/blob/fileblob: closing a failed writer renames the half-written file). It does the same to its backup.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from infra.atomic_file import write_whole
from toolchain import failure
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
    """The state of `stack`, or its latest whole copy if it is damaged; None if the stack was never up.

    Raises SetupError if no copy is whole.
    """
    return source.read_text() if (source := _source(stack)) else None


def heal(stack: str) -> None:
    """Replace a damaged state by its latest whole copy, and say so. Raises SetupError as `read` does."""
    source = _source(stack)
    if source is None or source == file(stack):
        return
    made = datetime.fromtimestamp(source.stat().st_mtime)
    _write(stack, file(stack), source.read_text())
    say(
        f"the state of stack {stack} was damaged, for example by a full disk: the copy of {made:%Y-%m-%d %H:%M:%S} "
        "replaces it; objects that were created since then are looked up in the cluster"
    )


def keep(stack: str) -> None:
    """Copy the state before Pulumi works on it. Raises SetupError, with nothing changed, if this fails."""
    if text := read(stack):
        _write(stack, _copy(stack), text)


def _source(stack: str) -> Path | None:
    """The file itself, or its latest whole copy; None and SetupError as for `read`."""
    if not file(stack).exists():
        return None
    if source := next(_whole(stack), None):
        return source
    raise SetupError(
        f"the state of stack {stack} is damaged, and so are its copies: {file(stack)}",
        f"remove that file; {LOST_STATE} says how to take over the stack's objects",
    )


def _copy(stack: str) -> Path:
    return COPIES / f"{stack}.json"


def _whole(stack: str) -> Iterator[Path]:
    """The file itself if it is whole, then whole copies, the latest first."""
    backup = file(stack).with_name(f"{file(stack).name}.bak")  # from the update before the last
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
        why = f"{os.strerror(error.errno or 0)}: {target}"
        if error.errno in failure.FULL:
            raise SetupError(
                f"no room to keep the state of stack {stack}: {why}",
                f"{DISK_FULL} says what you may delete; nothing was changed",
            ) from None
        what = f"the state of stack {stack} cannot be written: {why}"
        refused = error.errno in failure.REFUSED
        raise (failure.others_file(target, what) if refused else SetupError(what)) from None

"""Writes a file in one step: a reader never sees a part of it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(target: Path, written: float | None = None, mode: int = 0o644) -> Iterator[BinaryIO]:
    """A file that replaces `target` if the block succeeds; by default all users may read it. Raises OSError.

    If the block fails, the new file is deleted, and `target` stays unchanged.

    Parameters:
        written: the file's time of change, in seconds since 1970; None for now.
    """
    handle, partial = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(partial, mode)
        if written is not None:
            os.utime(partial, (written, written))
        os.replace(partial, target)
    finally:
        Path(partial).unlink(missing_ok=True)


def write_whole(target: Path, text: str, mode: int = 0o644, written: float | None = None) -> None:
    """As `replacing`, with `text`."""
    with replacing(target, written, mode) as file:
        file.write(text.encode())

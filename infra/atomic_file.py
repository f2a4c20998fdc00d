"""A file that is never seen half written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(target: Path, written: float | None = None, mode: int = 0o644) -> Iterator[BinaryIO]:
    """The file that takes the place of `target`, by default for all to read, when the block ends well. Raises OSError.

    Nothing is left of it where the block does not.

    Parameters:
        written: when it counts as last written, in seconds since 1970; None for now.
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

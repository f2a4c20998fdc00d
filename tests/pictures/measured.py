"""What benchmarks have measured, as data: one file each in docs/benchmarks, of which the page's plots are made.

A plot names, in its own metadata, the data and the drawing program that it was made of.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "benchmarks"
PAGE = ROOT / "docs" / "benchmarks.md"
PROGRAM = Path(__file__).with_name("plots.py")
PLOTS = {
    "scale": ("scale",),
    "operator": ("operator-v1", "operator-v2"),
    "checkpoints": ("checkpoints",),
    "replicas": ("replicas",),
}
"""A plot's name -> those of its data."""
KEY = "Source"
"""Of the metadata of a plot: the digest of what it was made of. A keyword of the PNG specification."""
_SIGNATURE = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class Measured:
    """One benchmark's data.

    Parameters:
        date: the day, as ISO 8601.
        machine: cores and processor.
        command: what measured it.
        rows: one for each point; what a row holds is the benchmark's own. Seconds, MiB and images are plain numbers.
    """

    date: str
    machine: str
    command: str
    rows: list[dict[str, Any]]

    def write(self, file: Path) -> None:
        """One row a line, so that a change can be read."""
        head, rows = asdict(self), ",\n".join(f"  {json.dumps(row)}" for row in self.rows)
        lines = [f'"{name}": {json.dumps(head[name])}' for name in ("date", "machine", "command")]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{\n" + ",\n".join([*lines, f'"rows": [\n{rows}\n]']) + "\n}\n")


def read(file: Path) -> Measured:
    return Measured(**json.loads(file.read_text()))


def files(plot: str, folder: Path = FOLDER) -> list[Path]:
    """The data of a plot."""
    return [folder / f"{name}.json" for name in PLOTS[plot]]


def digest(plot: str, folder: Path = FOLDER, program: Path = PROGRAM) -> str:
    """SHA-256 of what a plot is made of: its data, and the program that draws it."""
    parts = [each.read_bytes() for each in (*files(plot, folder), program)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def texts(picture: Path) -> dict[str, str]:
    """The texts in a PNG's metadata, by keyword."""
    return dict(_texts(picture.read_bytes()))


def _texts(png: bytes) -> Iterator[tuple[str, str]]:
    # https://www.w3.org/TR/png-3/#11tEXt
    assert png.startswith(_SIGNATURE)
    place = len(_SIGNATURE)
    while place < len(png):
        length, kind = struct.unpack_from(">I4s", png, place)
        if kind == b"tEXt":
            keyword, _, text = png[place + 8 : place + 8 + length].partition(b"\0")
            yield keyword.decode("latin-1"), text.decode("latin-1")
        place += length + 12

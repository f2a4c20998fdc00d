"""Makes scikit-learn's handwritten digits into IDX files when the image is built. Standard library only.

`python3 -m trainer.digits digits.csv FOLDER` reads scikit-learn's own table (1,797 rows of 64 values from 0 to 16 and
a label), resizes 8x8 to 28x28 bilinearly and writes the four IDX files. Every fifth image of each class, counted in
the table's order, is test data: 1,442 to train on, 355 to test.
"""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from pathlib import Path

from trainer import idx

TABLE_SHA256 = "6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8"
SIDE, LARGE, DEEPEST = 8, 28, 16
TEST_EVERY = 5


def enlarge(pixels: list[int]) -> bytes:
    """28x28 grey values from 0 to 255 of 8x8 values from 0 to 16; pixel centres are aligned, edges repeat."""
    places = [min(max((at + 0.5) * SIDE / LARGE - 0.5, 0), SIDE - 1) for at in range(LARGE)]
    large = bytearray()
    for y in places:
        upper, lower = int(y), min(int(y) + 1, SIDE - 1)
        for x in places:
            left, right = int(x), min(int(x) + 1, SIDE - 1)
            across = x - left
            above = pixels[upper * SIDE + left] * (1 - across) + pixels[upper * SIDE + right] * across
            below = pixels[lower * SIDE + left] * (1 - across) + pixels[lower * SIDE + right] * across
            large.append(round((above + (below - above) * (y - upper)) * 255 / DEEPEST))
    return bytes(large)


def export(table: Path, folder: Path) -> None:
    """Write the IDX files of `table` into `folder`. Raises idx.DataError when it is not scikit-learn's table."""
    raw = table.read_bytes()
    found = hashlib.sha256(raw).hexdigest()
    if found != TABLE_SHA256:
        raise idx.DataError(f"{table}: expected sha256 {TABLE_SHA256}, found {found}")
    parts: dict[tuple[str, str], list[tuple[bytes, int]]] = {idx.TRAIN: [], idx.TEST: []}
    seen: Counter[int] = Counter()
    for line in raw.decode().splitlines():
        *pixels, label = (int(float(value)) for value in line.split(","))
        seen[label] += 1
        parts[idx.TRAIN if seen[label] % TEST_EVERY else idx.TEST].append((enlarge(pixels), label))
    folder.mkdir(parents=True, exist_ok=True)
    for (images, labels), rows in parts.items():
        pictures = b"".join(picture for picture, _ in rows)
        (folder / images).write_bytes(idx.pack((len(rows), LARGE, LARGE), pictures))
        (folder / labels).write_bytes(idx.pack((len(rows),), bytes(label for _, label in rows)))


if __name__ == "__main__":
    export(Path(sys.argv[1]), Path(sys.argv[2]))

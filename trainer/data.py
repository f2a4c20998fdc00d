"""`trainer data`: checks, copies and makes data sets, on the host and while an image is built. Standard library only.

`trainer data digits digits.csv FOLDER` makes scikit-learn's handwritten digits into IDX files: it reads
scikit-learn's own table (1,797 rows of 64 values from 0 to 16 and a label), resizes 8x8 to 28x28 bilinearly and writes
the four IDX files. Every fifth image of each class, counted in the table's order, is test data: 1,442 to train on, 355
to test.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from trainer import idx, volume

TABLE_SHA256 = "6ebb3d2fee246a4e99363262ddf8a00a3c41bee6014c373ed9d9216ba7f651b8"
SIDE, LARGE, DEEPEST = 8, 28, 16
TEST_EVERY = 5


def main(arguments: Sequence[str]) -> int:
    """Run one verb; all except `digits` print a JSON line for each data set, with its name. Raises idx.DataError."""
    top = argparse.ArgumentParser(prog="trainer data", description="Check the four IDX files of a data set.")
    verbs = top.add_subparsers(dest="verb", required=True)
    verify = verbs.add_parser("verify", help="check the files against the published checksums")
    copy = verbs.add_parser("copy", help="check the files, then copy them")
    bake = verbs.add_parser(
        "bake", help="check each data set in FOLDER and below; copy it into a folder with its name"
    )
    digits = verbs.add_parser("digits", help="make the files from scikit-learn's digits.csv")
    digits.add_argument("table", type=Path)
    for verb in (verify, copy, bake):
        verb.add_argument("folder", type=Path)
    for verb in (copy, bake, digits):
        verb.add_argument("into", type=Path)
    given = top.parse_args(arguments)
    if given.verb == "bake":
        below = [Path(folder) for folder, _, _ in os.walk(given.folder, followlinks=True)]
        folders = sorted(folder for folder in below if idx.present(folder))
        if not folders and {path.name for path in given.folder.iterdir()} - {"digits.csv"}:
            raise idx.DataError(
                f"{given.folder} holds no data set; put the four IDX files of each data set into a folder there"
            )
        for folder in folders:
            take(folder, given.into / idx.identify(folder))
    elif given.verb == "digits":
        export(given.table, given.into)
    elif given.verb == "copy":
        take(given.folder, given.into)
    else:
        print(json.dumps({"dataset": idx.identify(given.folder)}), flush=True)
    return 0


def take(folder: Path, into: Path) -> None:
    """Copy the verified data set in `folder`; files of an earlier data set with the same names are removed.

    Prints the data set's name as a JSON line. If idx.DataError is raised, nothing has been copied.
    """
    dataset = idx.identify(folder)
    into.mkdir(parents=True, exist_ok=True)
    for name in () if into.samefile(folder) else idx.FILES:
        source = idx.locate(folder, name)
        volume.write(into / source.name, source.read_bytes())
        for other in {name, f"{name}.gz"} - {source.name}:
            (into / other).unlink(missing_ok=True)
    print(json.dumps({"dataset": dataset}), flush=True)


def enlarge(pixels: list[int]) -> bytes:
    """8x8 values from 0 to 16, resized to 28x28 grey values from 0 to 255. Pixel centres are aligned, edges repeat."""
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
    """Write the IDX files of `table` into `folder`. Raises idx.DataError if `table` is not scikit-learn's table."""
    raw = table.read_bytes()
    found = hashlib.sha256(raw).hexdigest()
    if found != TABLE_SHA256:
        raise idx.DataError(
            f"{table}: expected sha256 {TABLE_SHA256}, found {found}; use scikit-learn's digits.csv"
        )
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

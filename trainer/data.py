"""`trainer data`: checks and copies data sets on the host and while an image is built. Standard library only."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path

from trainer import idx, volume


def main(arguments: Sequence[str]) -> int:
    """Print one JSON line that names the data set, or for `bake` one for each. Raises idx.DataError."""
    top = argparse.ArgumentParser(prog="trainer data", description="Check the four IDX files of a data set.")
    verbs = top.add_subparsers(dest="verb", required=True)
    verify = verbs.add_parser("verify", help="check them against the published checksums")
    copy = verbs.add_parser("copy", help="check them, then copy them")
    bake = verbs.add_parser("bake", help="check and copy each data set in FOLDER and below it, by its name")
    for verb in (verify, copy, bake):
        verb.add_argument("folder", type=Path)
    for verb in (copy, bake):
        verb.add_argument("into", type=Path)
    given = top.parse_args(arguments)
    if given.verb == "bake":
        below = [Path(folder) for folder, _, _ in os.walk(given.folder, followlinks=True)]
        folders = sorted(folder for folder in below if idx.present(folder))
        if not folders and {path.name for path in given.folder.iterdir()} - {"digits.csv"}:
            raise idx.DataError(
                f"{given.folder} holds no data set; put the four IDX files of each into a folder"
            )
        for folder in folders:
            take(folder, given.into / idx.identify(folder))
    elif given.verb == "copy":
        take(given.folder, given.into)
    else:
        print(json.dumps({"dataset": idx.identify(given.folder)}), flush=True)
    return 0


def take(folder: Path, into: Path) -> None:
    """Copy the verified data set in `folder`. Raises idx.DataError."""
    dataset = idx.identify(folder)
    into.mkdir(parents=True, exist_ok=True)
    for name in idx.FILES:
        source = idx.locate(folder, name)
        volume.write(into / source.name, source.read_bytes())
    print(json.dumps({"dataset": dataset}), flush=True)

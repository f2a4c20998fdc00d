"""Where a run comes from: commit, whether the tree was clean, image. Kept beside the run, never in a manifest.

With them the run gets its model card.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from toolchain.operating.environment import write_whole
from toolchain.paths import ROOT
from toolchain.runs import card, records
from toolchain.steps import say

CHECKPOINT, REPORT = "checkpoint.pt", "report.html"


def of_clone(root: Path = ROOT) -> dict[str, object]:
    """`commit` that is checked out, and whether the tree is `clean`; None for what Git cannot tell of this folder."""
    top = _git(root, "rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() != root.resolve():
        return {"commit": None, "clean": None}
    changed = _git(root, "status", "--porcelain")
    return {"commit": _git(root, "rev-parse", "HEAD"), "clean": None if changed is None else not changed}


def _git(root: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True)
    except OSError:  # there is no Git
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def keep(runs: Iterable[Path], origin: dict[str, object], began: float) -> None:
    """Write `origin` beside each of `runs`, folders, that was trained to its end since `began`, in seconds since 1970.

    What is known of a run stays. Where nothing can be written, a line says so: the training has succeeded.
    """
    for folder in runs:
        model = records.read(folder).model if folder.is_dir() else None
        if model is None or (folder / records.ORIGIN).exists():
            continue
        # A finished run that reports again writes its model, and no checkpoint.
        checkpoint = folder / CHECKPOINT
        if (checkpoint if checkpoint.is_file() else model).stat().st_mtime < began:
            continue
        try:
            _write_as_old_as(model, folder / records.ORIGIN, json.dumps(origin, indent=2) + "\n")
            _write_as_old_as(model, folder / card.FILE, card.card(records.read(folder)))
        except OSError as error:
            say(f"commit and image of run {folder.name} are not kept beside it: {error}")


def _write_as_old_as(model: Path, file: Path, text: str) -> None:
    """Write `file` with the time of `model`: a finished run is told by its model, the last of its files."""
    write_whole(file, text)
    os.utime(file, ns=(model.stat().st_atime_ns, model.stat().st_mtime_ns))


def report_lines(runs: Iterable[Path]) -> list[str]:
    """A line with the path of each run's report, where there is one."""
    return [f"report: {folder / REPORT}" for folder in runs if (folder / REPORT).is_file()]

"""A run as its folder `models/<stack>/runs/<run>` tells of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from toolchain.paths import MODELS
from toolchain.steps import SetupError

CONFIG, METRICS = "config.json", "metrics.jsonl"
# The trainer's other files of weights.
PASSING = ("checkpoint", "best")


@dataclass(frozen=True)
class Run:
    """One training.

    Parameters:
        stack: that it belongs to.
        name: of its folder, `<job>-<id>`.
        folder: where its files are.
        config: what it was trained with; empty where the folder does not tell.
        epochs: how many are done.
        accuracy: share of the test images that were recognized after the last of them, 0 to 1; None before the first.
        loss: mean of the test images' loss after it.
        seconds: of training until then.
        ended: when its files were last written to.
        model: its own model; None while it is not finished.
    """

    stack: str
    name: str
    folder: Path
    config: dict[str, Any]
    epochs: int
    accuracy: float | None
    loss: float | None
    seconds: float | None
    ended: datetime
    model: Path | None

    @property
    def is_current(self) -> bool:
        """Whether a model at the top of the stack's folder is this run's."""
        if self.model is None:
            return False
        top = self.folder.parents[1] / self.model.name
        return top.is_file() and top.stat().st_size == self.model.stat().st_size and _same(top, self.model)


def all_runs() -> list[Run]:
    """The runs of all stacks, the latest last; one that is being removed has a hidden name."""
    folders = (each for each in MODELS.glob("*/runs/*") if each.is_dir() and not each.name.startswith("."))
    return sorted((read(folder) for folder in folders), key=lambda run: run.ended)


def find(name: str) -> Run:
    """The run called `<run>` or `<stack>/<run>`; the beginning will do where no other run has it.

    Raises SetupError that names the runs in question.
    """
    there = all_runs()
    exact = [run for run in there if name in (run.name, f"{run.stack}/{run.name}")]
    found = exact or [
        run for run in there if run.name.startswith(name) or f"{run.stack}/{run.name}".startswith(name)
    ]
    if len(found) == 1:
        return found[0]
    listed = ", ".join(f"{run.stack}/{run.name}" for run in found or there) or "none yet"
    if found:
        raise SetupError(
            f"several runs are called {name}: {listed}", "write the whole name, with its stack: dev/<run>"
        )
    raise SetupError(f"no run is called {name}", f"take one of those that `make runs` lists: {listed}")


def read(folder: Path) -> Run:
    """What `folder` tells. A file that is missing or torn tells nothing."""
    epochs = [line for line in _lines(folder / METRICS) if "accuracy" in line]
    last = epochs[-1] if epochs else {}
    files = [path for path in folder.iterdir() if path.is_file()]
    return Run(
        stack=folder.parents[1].name,
        name=folder.name,
        folder=folder,
        config=_config(folder / CONFIG),
        epochs=int(last.get("epoch", 0)),
        accuracy=last.get("accuracy"),
        loss=last.get("test_loss"),
        seconds=last.get("training_s"),
        ended=datetime.fromtimestamp(
            max((path.stat().st_mtime for path in files), default=folder.stat().st_mtime)
        ),
        model=next((path for path in sorted(files) if _is_model(path)), None),
    )


def _is_model(path: Path) -> bool:
    return path.suffix == ".pt" and not any(word in path.stem.split(".") for word in PASSING)


def _config(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    try:
        text = file.read_text()
    except OSError:
        return
    for line in text.splitlines():
        try:
            yield json.loads(line)
        except ValueError:  # the end that a kill tore off
            continue


def _same(one: Path, other: Path) -> bool:
    return one.samefile(other) or _digest(one, one.stat().st_mtime_ns) == _digest(
        other, other.stat().st_mtime_ns
    )


@cache
def _digest(file: Path, _written: int) -> bytes:
    return hashlib.sha256(file.read_bytes()).digest()

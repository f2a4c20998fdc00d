"""Reads a run from its folder `models/<stack>/runs/<run>`."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from infra import agreed
from toolchain.paths import MODELS
from toolchain.steps import SetupError

CONFIG, METRICS, ORIGIN = "config.json", "metrics.jsonl", "origin.json"
TRAINERS = frozenset({"dataset", "network"})
"""Keys of config.json that our trainer always writes."""
NO_RESULT = ("at", "epoch", "step", "accuracy", "loss")
# Other files of weights that the trainer writes.
PASSING = ("checkpoint", "best")
TRIALS = "sweep"
"""Folder beside a stack's own runs, with the runs of `make sweep`'s trials."""


@dataclass(frozen=True)
class Run:
    """One training.

    Parameters:
        stack: its stack.
        name: the name of its folder, `<job>-<id>`.
        folder: where its files are.
        config: its configuration, with command and environment if the program is not our trainer; empty if unknown.
        epochs: how many are done.
        accuracy: share of the test images that it recognizes after the last epoch, 0 to 1; None before the first.
        loss: mean loss of the test images after the last epoch.
        seconds: seconds of training until then.
        ended: when its files were last written.
        model: its own model; None while it is not finished.
        origin: commit, whether the tree was clean, and image, from `make up`; empty if unknown.
        told: run.json, which the follower of the job writes; empty if nobody followed it.
        results: the last printed numbers of a program that is not our trainer, by name.
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
    origin: dict[str, Any]
    told: dict[str, Any] = field(default_factory=dict)
    results: dict[str, float] = field(default_factory=dict)

    @property
    def by_trainer(self) -> bool:
        """Whether our trainer made the run, according to config.json."""
        return self.config.keys() >= TRAINERS

    @property
    def is_finished(self) -> bool:
        """Whether the run has succeeded. Our trainer writes the model last; other programs may write it at any time."""
        if self.by_trainer or not self.told:
            return self.model is not None
        return self.outcome == agreed.SUCCEEDED

    @property
    def outcome(self) -> str:
        """How its job ended, from the job's conditions; empty if it has not ended, or if there is no record."""
        return str(self.told.get("outcome") or "")

    @property
    def program(self) -> dict[str, Any]:
        """Its program, from its record: command, number of processes, environment; empty without a record."""
        return _program(self.told)

    @property
    def image(self) -> str:
        """Its image, from its record; empty without a record."""
        return str(_of(self.told).get("image") or "")

    @property
    def is_trial(self) -> bool:
        """Whether the run is a trial of a search. The stack's own model never comes from a trial."""
        return self.folder.parents[1].name == TRIALS and self.folder.parents[2].name == self.stack

    @property
    def top(self) -> Path:
        """The stack's folder, with the model of its latest run."""
        return self.folder.parents[2 if self.is_trial else 1]

    @property
    def commit(self) -> str:
        """The short commit, with a + if the tree was not clean; empty if unknown."""
        commit = self.origin.get("commit")
        return f"{commit[:8]}{'' if self.origin.get('clean') else '+'}" if isinstance(commit, str) else ""

    @property
    def is_current(self) -> bool:
        """Whether the model at the top of the stack's folder is from this run."""
        if self.model is None:
            return False
        top = self.top / self.model.name
        try:
            same_size = top.is_file() and top.stat().st_size == self.model.stat().st_size
            return same_size and _same(top, self.model)
        except FileNotFoundError:  # the run was removed meanwhile
            return False


def models_folder() -> Path:
    """The folder that has a folder for each stack, with its models and runs."""
    return MODELS


def all_runs() -> list[Run]:
    """The runs of all stacks, the latest last, without runs that are being removed: these have hidden names."""
    found = []
    for folder in (*models_folder().glob("*/runs/*"), *models_folder().glob(f"*/{TRIALS}/runs/*")):
        if folder.is_dir() and not folder.name.startswith("."):
            with suppress(FileNotFoundError):
                found.append(read(folder))
    return sorted(found, key=lambda run: run.ended)


def find(name: str) -> Run:
    """The run called `<run>` or `<stack>/<run>`; a unique beginning of the name is enough.

    Raises SetupError, which lists the possible runs.
    """
    there = all_runs()
    exact = [run for run in there if name in (run.name, f"{run.stack}/{run.name}")]
    found = exact or [
        run for run in there if run.name.startswith(name) or f"{run.stack}/{run.name}".startswith(name)
    ]
    if len(found) == 1:
        return found[0]
    if not there:
        raise SetupError(f"no run is called {name}: there are no runs yet", "make up")
    listed = ", ".join(f"{run.stack}/{run.name}" for run in found or there)
    if found:
        raise SetupError(
            f"several runs are called {name}: {listed}",
            "write the whole name that `make runs` lists, with the stack's name: dev/<run>",
        )
    raise SetupError(f"no run is called {name}", f"use a run that `make runs` lists: {listed}")


def read(folder: Path) -> Run:
    """The run in `folder`. Missing or damaged files count as empty. Raises FileNotFoundError if `folder` is gone."""
    journal = list(_lines(folder / METRICS))
    printed = [] if journal else list(_lines(folder / agreed.PRINTED))
    results = {name: value for line in printed for name, value in line.items() if number(value) is not None}
    epochs = [line for line in journal if "accuracy" in line]
    last = epochs[-1] if epochs else {"test_loss": results.get("loss"), **results}
    told, config = agreed.recorded(folder), agreed.mapping(folder / CONFIG)
    written = {path: at for path, at in _written(folder).items() if not agreed.is_of_record(path.name)}
    end = seconds_of(told.get("end"))
    return Run(
        stack=_stack(folder),
        name=folder.name,
        folder=folder,
        config=config if config.keys() >= TRAINERS else _program(told) | config,
        epochs=int(number(last.get("epoch")) or 0),
        accuracy=number(last.get("accuracy")),
        loss=number(last.get("test_loss")),
        seconds=number(last.get("training_s")) if journal else _seconds(told),
        ended=datetime.fromtimestamp(max(written.values(), default=end or folder.stat().st_mtime)),
        model=_model(folder, told, sorted(written)),
        origin=agreed.mapping(folder / ORIGIN),
        told=told,
        results={name: value for name, value in results.items() if name not in NO_RESULT},
    )


def _of(told: Mapping[str, Any]) -> dict[str, Any]:
    found = told.get("configuration")
    return found if isinstance(found, dict) else {}


def _program(told: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of a run of any program, from its record."""
    found = _of(told)
    if not found:
        return {}
    return {
        "command": " ".join(map(str, found.get("command") or [])),
        "world_size": found.get("processes"),
        **{f"env {name}": value for name, value in (found.get("environment") or {}).items()},
        **{f"env from {place}": True for place in found.get("environmentFrom") or []},
    }


def _seconds(told: Mapping[str, Any]) -> float | None:
    begin, end = (seconds_of(told.get(key)) for key in ("started", "end"))
    return None if begin is None or end is None else end - begin


def seconds_of(text: object) -> float | None:
    """Seconds since 1970 of a time in ISO 8601; None for other values."""
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return None


def _model(folder: Path, told: Mapping[str, Any], written: Sequence[Path]) -> Path | None:
    named = folder / str(told.get("model") or "")
    return named if named in written else next((path for path in written if _is_model(path)), None)


def _stack(folder: Path) -> str:
    """The name of the stack whose run is in `folder`. A stack may have the same name as the folder of trials."""
    of_trial = folder.parents[1].name == TRIALS and folder.parents[2] != models_folder()
    return folder.parents[2 if of_trial else 1].name


def _written(folder: Path) -> dict[Path, float]:
    """When each file was last written. A file that is deleted meanwhile is skipped."""
    found = {}
    for path in folder.iterdir():
        if path.is_file():
            with suppress(FileNotFoundError):
                found[path] = path.stat().st_mtime
    return found


def number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return value if math.isfinite(value) else None
    except OverflowError:  # a whole number that is too large for a float
        return None


def _is_model(path: Path) -> bool:
    return path.suffix == ".pt" and not any(word in path.stem.split(".") for word in PASSING)


def metrics(run: Run) -> list[dict[str, Any]]:
    """The readable lines of the run's metrics.jsonl, else the lines that its program printed, in order.

    A printed line without a step gets the step of the line before. If no line has a step, each gets its line number.
    """
    if journal := list(_lines(run.folder / METRICS)):
        return journal
    step, found = 0, []
    printed = list(_lines(run.folder / agreed.PRINTED))
    counts = any("step" in line for line in printed)
    for place, line in enumerate(printed, 1):
        step = line.get("step", step) if counts else place
        found.append({**line, "step": step})
    return found


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    try:
        text = file.read_text(errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        try:
            found = json.loads(line)
        except ValueError:  # the last line, cut off by a kill
            continue
        if isinstance(found, dict):
            yield found


def _same(one: Path, other: Path) -> bool:
    return one.samefile(other) or _digest(one, one.stat().st_mtime_ns) == _digest(
        other, other.stat().st_mtime_ns
    )


@cache
def _digest(file: Path, _written: int) -> bytes:
    return hashlib.sha256(file.read_bytes()).digest()

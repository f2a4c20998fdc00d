"""`make models`: which run each stack's model is from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from toolchain.runs import listing, records
from toolchain.runs.records import Run

HEAD = ("model", "run", "ended", "data", "network", "accuracy", "loss", "commit")


def show(as_json: bool) -> None:
    """Print a line for each model at the top of a stack's folder, or JSON."""
    found = models()
    if as_json:
        print(json.dumps([as_record(model, runs) for model, runs in found], indent=2))
    elif found:
        print("\n".join(listing.table([HEAD, *(row(model, runs) for model, runs in found)])))
    else:
        print("no models yet; `make up` makes one")


def models() -> list[tuple[Path, list[Run]]]:
    """Each model at the top of a stack's folder, with the runs whose own model is the same file byte for byte.

    There may be several, as the same training gives the same model, or none: a run may have been removed.
    """
    current = [run for run in records.all_runs() if run.is_current]
    tops = sorted(each for each in records.models_folder().glob("*/*.pt") if not each.name.startswith("."))
    return [(top, [run for run in current if run.model and run.top / run.model.name == top]) for top in tops]


def as_record(model: Path, runs: list[Run]) -> dict[str, Any]:
    """A model as JSON has it, its runs as `make runs` has them."""
    return {
        "model": str(model),
        "stack": model.parent.name,
        "runs": [listing.as_record(run) for run in runs],
    }


def row(model: Path, runs: list[Run]) -> tuple[str, ...]:
    """The model's cells, in the order of HEAD; of several runs the latest."""
    name = str(model.relative_to(records.models_folder().parent))
    if not runs:
        return (name, "no run here has it", *[""] * (len(HEAD) - 2))
    run = runs[-1]
    return (
        name,
        run.name,
        run.ended.strftime("%Y-%m-%d %H:%M"),
        str(run.config.get("dataset", "?")),
        str(run.config.get("network", "?")),
        listing.number(run.accuracy, 4),
        listing.number(run.loss, 4),
        run.commit,
    )

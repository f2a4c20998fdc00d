"""`make runs`: a line for each run, or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from toolchain import stack_files
from toolchain.runs import records
from toolchain.runs.records import Run

# Value of --sort -> what goes first to last. A run without the value goes first.
ORDERS: dict[str, Callable[[Run], Any]] = {
    "ended": lambda run: run.ended,
    "accuracy": lambda run: (run.accuracy is not None, run.accuracy),
    "loss": lambda run: (run.loss is not None, run.loss),
    "seconds": lambda run: (run.seconds is not None, run.seconds),
    "stack": lambda run: (run.stack, run.name),
}
HEAD = (
    "  ended",
    "stack",
    "run",
    "data",
    "network",
    "epochs",
    "ranks",
    "accuracy",
    "loss",
    "seconds",
    "commit",
)


def show(stack: str | None, order: str, as_json: bool) -> None:
    """Print the runs of `stack`, or of all, in an order of ORDERS. Raises SetupError where `stack` is none."""
    runs = [run for run in records.all_runs() if stack in (None, run.stack)]
    runs.sort(key=ORDERS[order])
    if as_json:
        print(json.dumps([as_record(run) for run in runs], indent=2))
    elif runs:
        print("\n".join(table([HEAD, *(row(run) for run in runs)])))
        print("* its model is the one at the top of the stack's folder")
    elif stack is None:
        print("no runs yet; `make up` makes one")
    else:
        stack_files.check(stack)  # runs may outlive their stack's file
        print(f"stack {stack} has no runs yet; `make up STACK={stack}` makes one")


def as_record(run: Run) -> dict[str, Any]:
    """A run as JSON has it: seconds, shares from 0 to 1, and the time in ISO 8601."""
    return {
        "stack": run.stack,
        "run": run.name,
        "ended": run.ended.astimezone().isoformat(timespec="seconds"),
        "epochs": run.epochs,
        "accuracy": run.accuracy,
        "loss": run.loss,
        "seconds": run.seconds,
        "finished": run.model is not None,
        "current": run.is_current,
        "config": run.config,
        "origin": run.origin,
    }


def row(run: Run) -> tuple[str, ...]:
    """The run's cells, in the order of HEAD."""
    wanted = run.config.get("epochs", "?")
    return (
        f"{'*' if run.is_current else ' '} {run.ended:%Y-%m-%d %H:%M}",
        run.stack,
        run.name,
        str(run.config.get("dataset", "?")),
        str(run.config.get("network", "?")),
        str(wanted) if run.model else f"{run.epochs} of {wanted}",
        str(run.config.get("world_size", "?")),
        number(run.accuracy, 4),
        number(run.loss, 4),
        number(run.seconds, 1),
        run.commit,
    )


def number(value: float | None, digits: int) -> str:
    """`value` with so many decimal digits; empty where there is none."""
    return "" if value is None else f"{value:.{digits}f}"


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with the cells of each column below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(each, widths, strict=True)).rstrip()
        for each in rows
    ]

"""`make runs`, `make models`, `make board`: the runs of this machine as lines, as JSON, in TensorBoard."""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from toolchain import stack_files
from toolchain.paths import LOCAL, ROOT
from toolchain.runs import records
from toolchain.runs.records import Run
from toolchain.steps import SetupError, say
from toolchain.tools import venv

# Value of --sort -> key of the order, smallest first. A run without the value comes first.
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
MODELS_HEAD = ("model", "run", "ended", "data", "network", "accuracy", "loss", "commit")
MOST_WORDS = 28
"""The most characters of a command that a row shows."""
LOOPBACK = "127.0.0.1"
PORT = "6006"
LOCK = ROOT / "requirements-board.lock"
PACKAGES = LOCAL / "tensorboard"
EVENTS = "*/runs/*/events.out.tfevents.*"
ANOTHER = "`make board PORT=0` uses a free port and shows its number"


def show(stack: str | None, order: str, as_json: bool) -> None:
    """Print the runs of `stack`, or of all stacks, in an order of ORDERS. Raises SetupError for an unknown stack."""
    runs = [run for run in records.all_runs() if stack in (None, run.stack)]
    runs.sort(key=ORDERS[order])
    if as_json:
        print(json.dumps([as_record(run) for run in runs], indent=2))
    elif runs:
        print("\n".join(table([HEAD, *(row(run) for run in runs)])))
        print("* the model at the top of the stack's folder is from this run")
    elif stack is None:
        print("no runs yet; `make up` makes one")
    else:
        stack_files.check(stack)  # runs may outlive their stack's file
        print(f"stack {stack} has no runs yet; `make up STACK={stack}` makes one")


def as_record(run: Run) -> dict[str, Any]:
    """A run for JSON: seconds, shares from 0 to 1, and the time in ISO 8601."""
    return {
        "stack": run.stack,
        "run": run.name,
        "ended": run.ended.astimezone().isoformat(timespec="seconds"),
        "epochs": run.epochs,
        "accuracy": run.accuracy,
        "loss": run.loss,
        "seconds": run.seconds,
        "finished": run.is_finished,
        "outcome": run.outcome or None,
        "results": run.results,
        "current": run.is_current,
        "config": run.config,
        "origin": run.origin,
    }


def row(run: Run) -> tuple[str, ...]:
    """The run's cells, in the order of HEAD."""
    return (
        f"{'*' if run.is_current else ' '} {run.ended:%Y-%m-%d %H:%M}",
        run.stack,
        run.name,
        *_trains(run),
        _progress(run),
        str(run.config.get("world_size", "?")),
        number(run.accuracy, 4),
        number(run.loss, 4),
        number(run.seconds, 1),
        run.commit,
    )


def _trains(run: Run) -> tuple[str, str]:
    """Data and network. If the program is not our trainer, data is unknown, and its command is shown as the network."""
    command = str(run.program.get("command") or "")
    if run.by_trainer or not run.told:
        return str(run.config.get("dataset", "?")), str(run.config.get("network", "?"))
    network = command if len(command) <= MOST_WORDS else f"{command[: MOST_WORDS - 1]}…"
    return str(run.config.get("dataset", "-")), str(run.config.get("network", network or "-"))


def _progress(run: Run) -> str:
    if run.by_trainer or not run.told:
        wanted = run.config.get("epochs", "?")
        return str(wanted) if run.model else f"{run.epochs} of {wanted}"
    done = [str(run.epochs)] if run.epochs else []
    return " ".join([*done, *([] if run.is_finished else [run.outcome or "not ended"])])


def number(value: float | None, digits: int) -> str:
    """`value` with `digits` decimal digits; empty for None."""
    return "" if value is None else f"{value:.{digits}f}"


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(each, widths, strict=True)).rstrip()
        for each in rows
    ]


def show_models(as_json: bool) -> None:
    """Print a line for each model at the top of a stack's folder, or JSON."""
    found = models()
    if as_json:
        print(json.dumps([model_as_record(model, runs) for model, runs in found], indent=2))
    elif found:
        print("\n".join(table([MODELS_HEAD, *(model_row(model, runs) for model, runs in found)])))
    else:
        print("no models yet; `make up` makes one")


def models() -> list[tuple[Path, list[Run]]]:
    """Each model at the top of a stack's folder, with the runs whose own model is equal byte for byte.

    A model may have several runs, because the same training gives the same model, or none, because a run was removed.
    """
    current = [run for run in records.all_runs() if run.is_current]
    tops = {each for each in records.models_folder().glob("*/*.pt") if not each.name.startswith(".")}
    tops |= {run.top / run.model.name for run in current if run.model}
    return [
        (top, [run for run in current if run.model and run.top / run.model.name == top])
        for top in sorted(tops)
    ]


def model_as_record(model: Path, runs: list[Run]) -> dict[str, Any]:
    """A model for JSON, with its runs as in `make runs`."""
    return {
        "model": str(model),
        "stack": model.parent.name,
        "runs": [as_record(run) for run in runs],
    }


def model_row(model: Path, runs: list[Run]) -> tuple[str, ...]:
    """The model's cells, in the order of MODELS_HEAD, with the latest of its runs."""
    name = str(model.relative_to(records.models_folder().parent))
    if not runs:
        return (name, "from no run on this machine", *[""] * (len(MODELS_HEAD) - 2))
    run = runs[-1]
    return (
        name,
        run.name,
        run.ended.strftime("%Y-%m-%d %H:%M"),
        *_trains(run),
        number(run.accuracy, 4),
        number(run.loss, 4),
        run.commit,
    )


def board(port: str) -> None:
    """Replace this process by TensorBoard with the runs of all stacks, on `port`, only for browsers on this machine.

    TensorBoard reads new runs as they appear, and ends with Ctrl-C.
    Raises SetupError for a wrong port, or a port in use.
    """
    _ensure_free(_port(port))
    program = venv.ensure_beside(PACKAGES, LOCK) / "python"
    if not any(records.models_folder().glob(EVENTS)):
        say("no run has written events yet: a run appears in TensorBoard when `make up` trains it")
    os.execv(program, [str(program), *_arguments(port)])


def _arguments(port: str) -> list[str]:
    """TensorBoard's arguments. Its simple reader, in the same process, is enough for files of some kilobytes."""
    where = ["--logdir", str(records.models_folder()), "--host", LOOPBACK, "--port", port]
    return ["-m", "tensorboard.main", *where, "--load_fast", "false"]


def _port(port: str) -> int:
    """The port that the user has given; 0 for a free port. Raises SetupError."""
    if port.isascii() and port.isdigit() and int(port) <= 65535:
        return int(port)
    raise SetupError(f"PORT={port} is not a port, which is a number from 0 to 65535", ANOTHER)


def _ensure_free(port: int) -> None:
    """Raise SetupError if `port` of the loopback interface is not free now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise SetupError(f"another program listens on port {port}", ANOTHER) from None
            raise SetupError(f"cannot listen on port {port}: {error.strerror}", ANOTHER) from None

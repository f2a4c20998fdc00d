"""Reads accuracy and loss of a run from rank 0's output, or from metrics.jsonl or printed.jsonl in its folder."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

NUMBER = r"([+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
EPOCH = re.compile(rf"^(accuracy|loss)={NUMBER}$")
# The trainer's last line. A run that resumes after its last epoch prints only this line.
CLOSING = re.compile(rf"\{{metricName: (accuracy|loss), metricValue: {NUMBER}\}}")
PROGRESS = re.compile(r"^Train Epoch: \d+ ")
NAMED = re.compile(rf"(?<![\w.-])([A-Za-z_][\w.-]*)={NUMBER}(?=[\s,;|)\]}}]|$)")
COUNTED = re.compile(r"\b(epoch|step)s?[ :=#]*(\d+)", re.IGNORECASE)


def metrics(lines: Iterable[str]) -> dict[str, float]:
    """The last accuracy and loss in `lines`, after an epoch or at the end."""
    found: dict[str, float] = {}
    for line in lines:
        match = EPOCH.match(line.strip())
        pairs = [match.groups()] if match else CLOSING.findall(line)
        found |= {name: float(value) for name, value in pairs}
    return found


def journal_metrics(text: str) -> dict[str, float]:
    """The last accuracy and loss in the trainer's metrics.jsonl, with as many digits as the log has.

    A last line that a kill cut off is ignored.
    """
    lines = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
    epochs = [line for line in lines if "accuracy" in line]
    if not epochs:
        return {}
    return {"accuracy": round(epochs[-1]["accuracy"], 4), "loss": round(epochs[-1]["test_loss"], 4)}


def named(line: str) -> dict[str, float]:
    """Each `name=number` of `line`, and the line's `epoch` and `step`; empty if there are only these two."""
    found = {
        name: float(value) for name, value in NAMED.findall(line) if name.lower() not in ("epoch", "step")
    }
    if not found:
        return {}
    return {name.lower(): int(value) for name, value in reversed(COUNTED.findall(line))} | found


def printed_metrics(text: str) -> dict[str, float]:
    """The last accuracy and loss in printed.jsonl of a run's record."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        if line.endswith("}"):
            found |= {name: value for name, value in json.loads(line).items() if name in ("accuracy", "loss")}
    return found


def is_progress(line: str) -> bool:
    """Whether `line` is about a step. A log has many such lines, and few lines about epochs."""
    return PROGRESS.match(line) is not None

"""Reads what rank 0 prints."""

from __future__ import annotations

import re
from collections.abc import Iterable

NUMBER = r"([+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
EPOCH = re.compile(rf"^(accuracy|loss)={NUMBER}$")
# The closing line, which a run that resumes at its end prints alone.
CLOSING = re.compile(rf"\{{metricName: (accuracy|loss), metricValue: {NUMBER}\}}")
PROGRESS = re.compile(r"^Train Epoch: \d+ ")


def metrics(lines: Iterable[str]) -> dict[str, float]:
    """The last accuracy and loss that `lines` tell, after an epoch or at the end."""
    found: dict[str, float] = {}
    for line in lines:
        match = EPOCH.match(line.strip())
        pairs = [match.groups()] if match else CLOSING.findall(line)
        found |= {name: float(value) for name, value in pairs}
    return found


def is_progress(line: str) -> bool:
    """Whether a line is one of the many about a step, not one about an epoch."""
    return PROGRESS.match(line) is not None

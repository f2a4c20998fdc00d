"""What a search has found, as lines."""

from __future__ import annotations

import json
from pathlib import Path

from toolchain.sweep import trials
from toolchain.sweep.trials import Answer, Search

WORDS = {trials.COMPLETE: "complete", trials.PRUNED: "given up", trials.FAILED: "failed"}
NOTHING = "no trial has come to its end, so none is the best"


def lines(asked: Search, answer: Answer, file: Path) -> list[str]:
    """How many trials ended how, the best of them, and what to write for it into the stack file `file`."""
    ends = ", ".join(
        f"{len(found)} {word}" for state, word in WORDS.items() if (found := answer.in_state(state))
    )
    first = f"search {asked.name}: {len(answer.trials)} trials: {ends}"
    best = next((each for each in answer.trials if each.number == answer.best), None)
    if best is None or best.objective is None:
        return [first, NOTHING]
    written = {**asked.replaced, **best.values}
    values = [f"      {key.rpartition('.')[2]}: {json.dumps(written[key])}" for key in sorted(written)]
    return [
        first,
        f"best: trial {best.number}, run {best.run}",
        f"{asked.objective}={best.objective:.4f}",
        f"to train with it, write into {file}:",
        "  trainstack:job:",
        "    training:",
        *values,
    ]

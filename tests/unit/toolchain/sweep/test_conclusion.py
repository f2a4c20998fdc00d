"""What `make sweep` ends with: lines that can be written into the stack file as they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from infra.config import from_raw, sweep_trials
from infra.config.training import Dataset
from infra.job.pod import command_line
from infra.sweep import search
from tests.unit.toolchain.sweep.played import World
from toolchain.sweep import rounds, searching, trials
from toolchain.sweep.trials import Answer, Trial

VALUES = {"training.lr": 0.0123, "training.batchSize": 64}
FILE = Path("stacks/Pulumi.dev.yaml")


def lines(*found: Trial, best: int | None) -> list[str]:
    return searching.conclusion(World(Path(), {}).asked, Answer(found, best), FILE)


def test_the_best_is_told_with_what_to_write_for_it() -> None:
    shown = lines(
        Trial(0, trials.FAILED, {"training.lr": 1.0, "training.batchSize": 32}),
        Trial(1, trials.COMPLETE, VALUES, 0.99123, 3, "mnist-sweep-1-0a1b2c3d"),
        Trial(2, trials.PRUNED, VALUES, 0.5, 1, "r"),
        best=1,
    )
    assert shown[:3] == [
        "search sweep: 3 trials: 1 complete, 1 given up, 1 failed",
        "best: trial 1, run mnist-sweep-1-0a1b2c3d",
        "accuracy=0.9912",
    ]
    assert str(FILE) in shown[3]
    written = yaml.safe_load("\n".join(shown[4:]))
    assert written == {"trainstack:job": {"training": {"batchSize": 64, "lr": 0.0123}}}
    job = {"name": "mnist", **written["trainstack:job"]}
    assert from_raw("dev", {"job": job}, str(FILE)).jobs[0].training.lr == 0.0123


def test_the_lines_train_as_the_trial_did_on_the_digits() -> None:
    """Searched epochs count in place of digitsEpochs."""
    raw: dict[str, Any] = {
        "job": {"name": "mnist", "training": {"dataset": "auto", "epochs": 1, "digitsEpochs": 12}},
        "sweep": {"options": {"training.epochs": [3, 5]}},
    }
    stack = from_raw("dev", raw, str(FILE))
    assert stack.sweep
    values: dict[str, float] = {"training.epochs": 5}
    trial = sweep_trials.job(stack.jobs[0], stack.sweep, "/models", stack.file, sweep_trials.Trial(1, values))
    asked = replace(World(Path(), {}).asked, replaced=search.search(stack)["replaced"])
    best = Trial(1, trials.COMPLETE, values, 0.9, 5, "mnist-sweep-1-0a1b2c3d")
    shown = searching.conclusion(asked, Answer((best,), 1), FILE)
    raw["job"]["training"] |= yaml.safe_load("\n".join(shown[4:]))["trainstack:job"]["training"]
    written = from_raw("dev", raw, str(FILE)).jobs[0]
    for dataset in (Dataset.DIGITS, Dataset.MNIST):
        assert command_line(written, dataset) == command_line(trial, dataset)


def test_without_a_complete_trial_none_is_the_best() -> None:
    shown = lines(Trial(0, trials.FAILED, VALUES), best=None)
    assert shown == ["search sweep: 1 trials: 1 failed", searching.NOTHING]


def test_a_line_of_a_trial_that_told_nothing_has_no_figure() -> None:
    asked = World(Path(), {}).asked
    assert (
        rounds.line(asked, Trial(5, trials.FAILED, VALUES)) == "trial 5: failed, with batchSize=64, lr=0.0123"
    )

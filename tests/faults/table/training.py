"""A training that lasts long enough to be hit in each epoch, and what it has to come to whatever hits it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.project import Project
from tests.e2e.waiting import wait_until
from tests.faults.table import background
from tests.faults.table.background import Background
from tests.faults.table.rows import EPOCHS

JOB = "pytorch-simple"
# Two images a step and replica on the digits' 1,442: some seconds an epoch on any machine.
STEPS = 361
TRAINING = {"dataset": "digits", "epochs": EPOCHS, "batchSize": 2, "logInterval": 1, "digitsEpochs": 12}
# An epoch of few steps, where the training is not what is hit.
SHORT = {**TRAINING, "epochs": 1, "batchSize": 32}


@dataclass
class Training:
    """A `make up` whose job trains; `runs` are those that were there before."""

    project: Project
    make: Background
    runs: frozenset[Path]

    @property
    def progress(self) -> tuple[int, int]:
        """Epoch and step that the run has written last; (0, 0) before the first."""
        lines = self.lines()
        return (int(lines[-1]["epoch"]), int(lines[-1]["step"])) if lines else (0, 0)

    def lines(self) -> list[dict[str, Any]]:
        """The run's metrics, as far as they are written."""
        new = [run for run in self.project.models.glob("runs/*") if run not in self.runs]
        file = new[0] / "metrics.jsonl" if new else None
        if file is None or not file.exists():
            return []
        whole, _, _ = file.read_text(errors="replace").rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]

    def reaches(self, epoch: int, part: float) -> None:
        """Return once `part` of `epoch` is trained. An AssertionError where `make up` ends before."""
        first = (epoch - 1 + part) * STEPS

        def there() -> bool:
            assert self.make.process.poll() is None, f"ended before epoch {epoch}:\n{self.make.output}"
            return self.progress[1] >= first

        wait_until(f"epoch {epoch} is trained", there)

    def goes_on(self, behind: int) -> None:
        """Return once a step after `behind` is written, or `make up` ends well. An AssertionError where it fails."""

        def goes_on() -> bool:
            assert self.make.process.poll() in (None, 0), self.make.output
            return self.progress[1] > behind or self.make.process.poll() == 0

        wait_until(f"a step after {behind}", goes_on)

    def result(self) -> tuple[float, float]:
        """What the run has come to, once `make up` has ended well."""
        assert self.make.ended() == 0, self.make.output
        return self.metrics()

    def metrics(self) -> tuple[float, float]:
        """Accuracy and loss of the last epoch that was tested, all digits of them."""
        last = [line for line in self.lines() if "accuracy" in line][-1]
        return float(last["accuracy"]), float(last["test_loss"])


@contextmanager
def started(
    project: Project,
    training: dict[str, Any] = TRAINING,
    environment: dict[str, str] | None = None,
    restarts: int = 100,
) -> Iterator[Training]:
    """`make up` of a run that never was: the same training as each other's, by another name.

    Parameters:
        restarts: after how many of them the job is given up.
    """
    env = {"TRY": f"try-{uuid.uuid4().hex[:8]}", **(environment or {})}
    project.configure(
        {"trainstack:job": {"training": training, "env": env, "runPolicy": {"backoffLimit": restarts}}}
    )
    runs = frozenset(project.models.glob("runs/*"))
    with background.make(project, "up", *project.data) as running:
        yield Training(project, running, runs)

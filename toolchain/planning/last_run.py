"""What a stack's last finished run measured: its speed, and how much it exchanged."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from toolchain.planning import checkpoint_sizes
from toolchain.planning.model import exchanged
from toolchain.runs import records
from toolchain.runs.records import Run


@dataclass(frozen=True)
class Measured:
    """One run.

    Parameters:
        run: its name.
        network: that it trained.
        replicas: ranks that trained together.
        batch: images of a step over all of them.
        images_per_s: over all of them, the median of its lines.
        size: bytes of a step's all-reduce; None where its checkpoint does not tell.
    """

    run: str
    network: str
    replicas: int
    batch: int
    images_per_s: float
    size: int | None

    @property
    def step_s(self) -> float:
        """Seconds of a step."""
        return self.batch / self.images_per_s


def last(stack: str, job: str) -> Measured | None:
    """The last finished run of `job` whose folder tells its speed."""
    of_job = (run for run in records.all_runs() if run.stack == stack and run.name.rpartition("-")[0] == job)
    found = [each for run in of_job if run.model and (each := _measured(run))]
    return found[-1] if found else None


def _measured(run: Run) -> Measured | None:
    """The first line of a run counts warming up as well, and is left out."""
    speeds = [
        float(line["images_per_s"])
        for line in records.metrics(run)
        if isinstance(line.get("images_per_s"), int | float) and line["images_per_s"] > 0 and line.get("step")
    ]
    replicas, batch = run.config.get("world_size"), run.config.get("global_batch")
    if not (speeds and isinstance(replicas, int) and isinstance(batch, int) and replicas > 0 and batch > 0):
        return None
    numbers = checkpoint_sizes.sizes(run.folder)
    return Measured(
        run=run.name,
        network=str(run.config.get("network")),
        replicas=replicas,
        batch=batch,
        images_per_s=statistics.median(speeds),
        size=exchanged(*numbers) if numbers else None,
    )

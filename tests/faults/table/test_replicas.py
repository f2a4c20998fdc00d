"""A replica deleted, killed, or out of memory in each epoch: the training goes on and comes to the same result."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.e2e.project import Project
from tests.faults.table import cluster, training
from tests.faults.table.rows import EPOCHS
from tests.faults.table.trial import Trial, of_each_way

STRIKES: dict[str, Callable[[Project, str], None]] = {
    "deleted": cluster.delete_pod,
    "killed": cluster.kill_trainer,
    "oom-killed": cluster.exhaust_memory,
}
ROWS = [f"{replica}-{name}" for replica in ("worker", "master") for name in STRIKES]


@pytest.mark.slow(reason="a training of its own, and restarts that the kubelet delays longer each time")
@pytest.mark.parametrize(("way", "row"), of_each_way(ROWS))
def test_a_lost_replica_changes_no_result(
    clone: Project, undisturbed: tuple[float, float], trial: Trial, row: str
) -> None:
    replica, _, name = row.partition("-")
    with training.started(clone) as run:
        for epoch in range(1, EPOCHS + 1):
            before = cluster.starts(clone, replica)
            run.reaches(epoch, cluster.moment(row, epoch).uniform(0.1, 0.5))
            struck = time.time()
            STRIKES[name](clone, replica)
            hit, step = run.progress  # no replica goes on without the other
            trial.strike(f"epoch {hit}", struck)
            cluster.starts_again(clone, replica, before)
            run.goes_on(step)
            trial.recovered()
            assert hit == epoch
        assert run.result() == undisturbed

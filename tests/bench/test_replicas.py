"""1, 2, 4 and 8 replicas of one job on this node: images a second, and the bytes of the formula in docs/plan.md.

Bytes are counted at the network interface. Every replica has one thread.

A job's speed is the ninth decile of those between two of its log lines: whatever else the machine does only slows it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median, quantiles

import pytest

from tests.bench.conftest import Bench, Recorder, show, table

pytestmark = pytest.mark.bench

RANKS = (1, 2, 4, 8)
ROUNDS = 2
"""Of a thorough run."""
IMAGES = 10_240  # of an epoch, in inside/few_pictures.py
EPOCHS = 2
LINE = 1024  # images between two log lines
LENET_PARAMETERS = 431_080
# Images of a step, and whether they are those of each replica.
BATCHES = {"64 each": (64, True), "256 shared": (256, False)}
# Of the bytes on the wire, those of TCP, of the meeting of the ranks and of the last evaluation.
MOST_BESIDE = 0.1


Job = tuple[int, int, bool]
"""Replicas, images of a step, and whether they are those of each replica."""


@dataclass
class Ran:
    """What the runs of one job measured: images a second between log lines, and bytes a step that each replica sent."""

    speeds: list[float] = field(default_factory=list)
    sent: list[float] = field(default_factory=list)

    @property
    def images_per_s(self) -> float:
        return quantiles(self.speeds, n=10)[-1]


def run(bench: Bench, job: Job, ran: Ran) -> None:
    """Add EPOCHS of `published-sgd` on lenet to what has been measured."""
    ranks, batch, per_replica = job
    option = "--batch-size" if per_replica else "--global-batch-size"
    step = batch * ranks if per_replica else batch
    interval = max(1, LINE // step)
    found = bench.job(
        ranks,
        f"python3 -m trainer --recipe published-sgd {option} {batch} --epochs {EPOCHS} --log-interval {interval} "
        "--data few_pictures:noise --model-dir /tmp/models",
        before="mkdir /tmp/models",
        after="grep lo: /proc/net/dev",
        PYTHONPATH="/opt/trainstack:/bench",
    )
    ran.speeds += [interval * step / (after - before) for before, after in pairwise(found["steps"])]
    ran.sent.append(int(found["after"].split()[9]) / (EPOCHS * -(-IMAGES // step)) / ranks)


def test_replicas_of_one_node_send_what_the_formula_says(
    bench: Bench, thorough: bool, record: Recorder, request: pytest.FixtureRequest
) -> None:
    ran = {(name, ranks): Ran() for name in BATCHES for ranks in RANKS}
    for _ in range(ROUNDS if thorough else 1):
        for (name, ranks), so_far in ran.items():
            run(bench, (ranks, *BATCHES[name]), so_far)
    rows, data, beside = [], [], {}
    size = 4 * (LENET_PARAMETERS + 1)
    for (name, ranks), found in ran.items():
        wanted, sent = 2 * (ranks - 1) * size / ranks, median(found.sent)
        if ranks > 1:
            beside[name, ranks] = sent / wanted - 1
        cells = [f"{wanted / 1e6:.3f} MB", f"{sent / 1e6:.3f} MB", f"{found.images_per_s:,.0f}"]
        rows.append([name, str(ranks), *cells])
        data.append({"batch": name, "replicas": ranks, "images_per_s": round(found.images_per_s)})
    head = "images a step | replicas | sent by each, by the formula | measured | images/s"
    show(request, table(head, rows))
    assert all(0 <= more < MOST_BESIDE for more in beside.values()), beside
    record("replicas", data)

"""1, 2, 4 and 8 replicas of one job on this node, against what the model of `make plan` says of them.

Latency and bandwidth come from the probe, compute from one replica with shares of several sizes; all in the same run.
Bytes are counted at the network interface. Every replica has one thread.

A job's speed is the ninth decile of those between two of its log lines: whatever else the machine does only slows it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import chain, pairwise
from statistics import median, quantiles

import pytest

from tests.bench.conftest import Bench, Recorder, show, table
from toolchain.planning import fit, loopback
from toolchain.planning.model import Fabric, Training, exchanged, point
from toolchain.planning.model_inputs import PARAMETERS

pytestmark = pytest.mark.bench

RANKS = (1, 2, 4, 8)
ROUNDS = 2
"""Of a thorough run."""
SHARES = (16, 64, 256)
IMAGES = 10_240  # of an epoch, in inside/few_pictures.py
EPOCHS = 2
LINE = 1024  # images between two log lines
# Images of a step, and whether they are those of each replica.
BATCHES = {"64 each": (64, True), "256 shared": (256, False)}
# Of the bytes on the wire, those of TCP, of the meeting of the ranks and of the last evaluation.
MOST_BESIDE = 0.1
MOST_OFF = 2.0


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


def probed(bench: Bench, request: pytest.FixtureRequest, cores: int) -> Fabric:
    """The link by the probe, of as many ranks as there are cores; more of them are shown beside it."""
    told = bench.run(
        f"python3 /planning/{loopback.PROBE.name} {' '.join(map(str, RANKS[1:]))}",
        volumes=(f"{loopback.PROBE.parent}:/planning:ro",),
    )
    reduced = [fit.AllReduce(each["ranks"], each["bytes"], each["seconds"]) for each in json.loads(told)]
    fabric = loopback.fabric([each for each in reduced if each.ranks <= max(2, cores)])
    rows = []
    for each in reduced:
        said = max(1.0, each.ranks / cores) * fabric.all_reduce_s(each.ranks, each.size)
        figures = [f"{1e3 * each.seconds:.3f} ms", f"{1e3 * said:.3f} ms", f"{said / each.seconds:.2f}"]
        rows.append([str(each.ranks), f"{each.size >> 10} KiB", *figures])
    link = f"{1e6 * fabric.between.latency_s:.0f} us and {fabric.between.bandwidth / 1e9:.2f} GB/s"
    show(request, f"{link}, by the rows of at most {max(2, cores)} ranks")
    show(request, table("ranks | bytes | all-reduce | by the model | model / measured", rows))
    return fabric


def test_the_model_foretells_replicas_of_one_node(
    bench: Bench, thorough: bool, record: Recorder, request: pytest.FixtureRequest
) -> None:
    cores = loopback.cores()
    fabric = probed(bench, request, cores)
    alone = [(1, share, True) for share in SHARES]
    jobs = {name: [(ranks, *batch) for ranks in RANKS] for name, batch in BATCHES.items()}
    ran = {job: Ran() for job in (*alone, *chain(*jobs.values()))}
    for _ in range(ROUNDS if thorough else 1):
        for job, so_far in ran.items():
            run(bench, job, so_far)
    fixed_s, image_s = fit.line((1.0, float(job[1]), job[1] / ran[job].images_per_s) for job in alone)
    show(request, f"one replica: {1e3 * fixed_s:.2f} ms a step and {1e6 * image_s:.1f} us an image")
    rows, data, bytes_off, speed_off = [], [], {}, {}
    size = exchanged(PARAMETERS["lenet"])
    for name, job in ((name, job) for name, found in jobs.items() for job in found):
        ranks, batch, per_replica = job
        said = point(Training(size, image_s, batch, per_replica, fixed_s, cores), fabric, ranks)
        measured, sent = ran[job].images_per_s, median(ran[job].sent)
        speed_off[job] = said.images_per_s / measured
        if ranks > 1:
            bytes_off[job] = sent / said.sent - 1
        cells = [f"{said.sent / 1e6:.3f} MB", f"{sent / 1e6:.3f} MB"]
        cells += [f"{1e3 * said.exchange_s:.2f} ms", f"{1e3 * said.compute_s:.2f} ms"]
        cells += [f"{said.images_per_s:,.0f}", f"{measured:,.0f}", f"{speed_off[job]:.2f}"]
        rows.append([name, str(ranks), *cells])
        speeds = {"model_images_per_s": round(said.images_per_s), "measured_images_per_s": round(measured)}
        data.append({"batch": name, "replicas": ranks, **speeds})
    head = (
        "images a step | replicas | sent by each | measured | exchange | compute | images/s | measured "
        "| model / measured"
    )
    show(request, table(head, rows))
    assert all(0 <= off < MOST_BESIDE for off in bytes_off.values()), bytes_off
    # With more ranks than cores the scheduler decides; the table says how far off the model is there.
    within = {job: off for job, off in speed_off.items() if job[0] <= cores}
    assert all(1 / MOST_OFF < off < MOST_OFF for off in within.values()), within
    record("replicas", data)

"""1, 2, 4 and 8 replicas of one job on this node, against what the model of `make plan` says of them.

Latency and bandwidth come from the probe, compute from one replica with shares of several sizes; all in the same run.
Bytes are counted at the network interface. Every replica has one thread.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from statistics import median

import pytest

from tests.bench.conftest import Bench, show, table
from tests.bench.test_trainer import rate
from toolchain.planning import fit, loopback
from toolchain.planning.known import PARAMETERS
from toolchain.planning.model import Fabric, Training, exchanged, point

pytestmark = pytest.mark.bench

RANKS = (1, 2, 4, 8)
ROUNDS = 3
SHARES = (16, 64, 256)
IMAGES = 60_000
LINE = 5120  # images between two log lines
# Images of a step, and whether they are those of each replica.
BATCHES = {"64 each": (64, True), "256 shared": (256, False)}
# Of the bytes on the wire, those of TCP, of the meeting of the ranks and of the last evaluation.
MOST_BESIDE = 0.1
MOST_OFF = 2.0


@dataclass(frozen=True)
class Ran:
    """One job: images a second, and the bytes that each replica sent in a step."""

    images_per_s: float
    sent: float


def run(bench: Bench, ranks: int, batch: int, per_replica: bool) -> Ran:
    """`published-sgd` on lenet, one epoch."""
    option = "--batch-size" if per_replica else "--global-batch-size"
    step = batch * ranks if per_replica else batch
    interval = max(1, LINE // step)
    found = bench.job(
        ranks,
        f"python3 -m trainer --recipe published-sgd {option} {batch} --epochs 1 --log-interval {interval} "
        "--model-dir /tmp/models",
        before="mkdir /tmp/models",
        after="grep lo: /proc/net/dev",
    )
    sent_by_all = int(found["after"].split()[9])
    return Ran(rate(found, interval * step), sent_by_all / -(-IMAGES // step) / ranks)


def several(bench: Bench, ranks: int, batch: int, per_replica: bool) -> Ran:
    """Medians of ROUNDS."""
    runs = [run(bench, ranks, batch, per_replica) for _ in range(ROUNDS)]
    return Ran(median(each.images_per_s for each in runs), median(each.sent for each in runs))


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


def test_the_model_foretells_replicas_of_one_node(bench: Bench, request: pytest.FixtureRequest) -> None:
    cores = loopback.cores()
    fabric = probed(bench, request, cores)
    alone = {share: several(bench, 1, share, True).images_per_s for share in SHARES}
    fixed_s, image_s = fit.line((1.0, float(share), share / found) for share, found in alone.items())
    show(request, f"one replica: {1e3 * fixed_s:.2f} ms a step and {1e6 * image_s:.1f} us an image")
    rows, bytes_off, speed_off = [], {}, {}
    for name, (batch, per_replica) in BATCHES.items():
        training = Training(exchanged(PARAMETERS["lenet"]), image_s, batch, per_replica, fixed_s, cores)
        for ranks in RANKS:
            said = point(training, fabric, ranks)
            measured = several(bench, ranks, batch, per_replica)
            speed_off[name, ranks] = said.images_per_s / measured.images_per_s
            if ranks > 1:
                bytes_off[name, ranks] = measured.sent / said.sent - 1
            cells = [f"{said.sent / 1e6:.3f} MB", f"{measured.sent / 1e6:.3f} MB"]
            cells += [f"{1e3 * said.exchange_s:.2f} ms", f"{1e3 * said.compute_s:.2f} ms"]
            cells += [f"{said.images_per_s:,.0f}", f"{measured.images_per_s:,.0f}"]
            rows.append([name, str(ranks), *cells, f"{speed_off[name, ranks]:.2f}"])
    head = (
        "images a step | replicas | sent by each | measured | exchange | compute | images/s | measured "
        "| model / measured"
    )
    show(request, table(head, rows))
    assert all(0 <= off < MOST_BESIDE for off in bytes_off.values()), bytes_off
    # With more ranks than cores the scheduler decides; the table says how far off the model is there.
    within = {key: off for key, off in speed_off.items() if key[1] <= cores}
    assert all(1 / MOST_OFF < off < MOST_OFF for off in within.values()), within

"""The probe, run in the trainer image: how fast gloo is between processes of this machine."""

from __future__ import annotations

import json
import os
from pathlib import Path

from toolchain.machine import engine
from toolchain.planning.fit import AllReduce, link
from toolchain.planning.model import Fabric
from toolchain.steps import SetupError, step

PROBE = Path(__file__).with_name("all_reduce_probe.py")
LABEL = "label=trainstack.target=cpu"
NAME = "loopback"
# Crowded ranks wait for the scheduler more than for each other, so no more are measured than there are cores.
RANKS = (2, 4, 8)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def measure() -> Fabric:
    """The loopback interface of this machine. Raises SetupError without a trainer image to measure in."""
    answering = engine.find()
    images = answering.output("images", "--quiet", "--filter", LABEL).split() if answering else []
    if not answering or not images:
        raise SetupError(
            "the all-reduce is measured in the trainer image, and there is none on this machine",
            "make up, or name a link: --link, or --latency-us with --bandwidth-gbs",
        )
    ranks = [str(count) for count in RANKS if count <= max(2, cores())]
    inside = ("--rm", "--network=none", "--entrypoint=python3", images[0])
    with step(f"all-reduce between {' and '.join(ranks)} processes"):
        found = json.loads(answering.output("run", *inside, "-c", PROBE.read_text(), *ranks))
    measured = [AllReduce(each["ranks"], each["bytes"], each["seconds"]) for each in found]
    return fabric(measured)


def fabric(measured: list[AllReduce]) -> Fabric:
    """The fabric whose rings take as long as those that were measured here. Raises SetupError."""
    try:
        found = link(measured, cores())
    except ValueError as error:
        raise SetupError(f"the probe is of no use: {error}") from error
    ranks = sorted({each.ranks for each in measured})
    between = " and ".join(map(str, ranks))
    source = (
        f"measured now: {len(measured)} sizes of all-reduce between {between} processes over gloo on loopback"
    )
    return Fabric(NAME, found, source)

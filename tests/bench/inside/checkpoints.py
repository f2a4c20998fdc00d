"""Checkpoints of one size, written within and beside a training: prints a mapping of figures as JSON.

    python3 checkpoints.py FOLDER MIB ROUNDS

The training is a matrix product after the other; MIB is what its state takes, half of it weights.
"""

import json
import resource
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch

from trainer import checkpoint
from trainer.checkpoint import Progress

STEP = torch.randn(512, 512)


def trained(seconds: float) -> float:
    """Steps a second in so many seconds."""
    began, steps = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        STEP @ STEP
        steps += 1
    return steps / (time.perf_counter() - began)


def beside(folder: Path, state: dict[str, Any], writer: checkpoint.Writer) -> tuple[float, float, float]:
    """Seconds until the training goes on, until all is on disk, and the training's steps a second in between."""
    began = time.perf_counter()
    writer.save(folder, Progress(), state)
    paused = time.perf_counter() - began
    steps, resumed = 0, time.perf_counter()
    while writer.busy:
        STEP @ STEP
        steps += 1
    pace = steps / (time.perf_counter() - resumed)
    writer.wait()
    return paused, time.perf_counter() - began, pace


def main(folder: Path, mib: int, rounds: int) -> None:
    count = mib * 2**20 // 8
    state = {"model": torch.randn(count), "optimizer": {"momentum": torch.randn(count)}, "config": {}}
    writer = checkpoint.Writer()
    found: dict[str, list[float]] = {
        "within": [],
        "paused": [],
        "written": [],
        "slowed": [],
    }
    for _ in range(rounds):
        began = time.perf_counter()
        checkpoint.save(folder, Progress(), state)
        found["within"].append(time.perf_counter() - began)
        alone = trained(1.0)
        paused, written, pace = beside(folder, state, writer)
        found["paused"].append(paused)
        found["written"].append(written)
        found["slowed"].append(pace / alone)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({**{name: statistics.median(each) for name, each in found.items()}, "peak_mib": peak}))


main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))

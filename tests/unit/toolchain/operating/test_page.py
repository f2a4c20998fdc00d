"""The words of a whole `make up` fit a page: events of real ones, into a new cluster and into one that stands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infra.screen.rows import rows
from infra.screen.view import View
from toolchain import progress
from toolchain.images import cluster_images
from toolchain.operating.job_lines import JobLines
from toolchain.operating.pulumi_events import Reader
from toolchain.paths import ROOT
from toolchain.tools import installed

RECORDED = Path(__file__).with_name("recorded")
PAGE = 55
COLD_S = 30 * 60
"""A cold start on a slow machine."""


def beats(seconds: float) -> int:
    """Lines about what runs, in so many seconds without a terminal."""
    count, at, pause = 0, progress.BEAT_S, progress.BEAT_S
    while at <= seconds:
        count, pause = count + 1, min(2 * pause, progress.LONGEST_BEAT_S)
        at += pause
    return count


# Lines around those.
WARM = {
    **{"forecast": 1, "set-up and looks": 5, "log file": 1, "beats": beats(90), "summary": 2, "pulumi up": 1},
    **{"what it took": 1, "report": 1, "closing lines": 4},
}
COLD = {
    **{
        "forecast, and how to make it short": 2,
        "tools": len({*installed.MODULES.values(), *cluster_images.BUILT}),
    },
    **{
        "bases, trainer and node image": 5,
        "packages, engine, plugin, published images": 4,
        "beats": beats(COLD_S),
    },
}
AROUND = {"warm": sum(WARM.values()), "cold": sum(WARM.values()) + sum(COLD.values())}
COMING_UP = ["Created", "Running", "epoch 1 of 12", "epoch 12 of 12", "Succeeded"]


def events(name: str) -> list[dict[str, Any]]:
    text = (RECORDED / f"{name}.jsonl").read_text().replace("@ROOT@", str(ROOT))
    return [json.loads(line) for line in text.splitlines()]


class Replay:
    """A recorded stream, read with its own clock."""

    def __init__(self, name: str) -> None:
        self.lines: list[str] = []
        self.view, self.now, self.heights = View(), 0.0, [0]
        reader = Reader(self.lines.append, lambda event: self.view.apply(event, self.now), lambda _: None)
        reader.jobs = JobLines(self.lines.append, reader.tell, lambda: self.now)
        reader.begin()
        for event in events(name):
            self.now = float(event["timestamp"])
            reader.take(event)
            drawn = rows(self.view, self.now, 80, 24)
            assert all(row.cell_len < 80 for row in drawn)
            self.heights.append(len(drawn))
        reader.end()


@pytest.mark.parametrize("name", ["cold", "warm"])
def test_a_page_is_enough_and_no_line_comes_twice(name: str) -> None:
    replay = Replay(name)
    assert len(replay.lines) + AROUND[name] <= PAGE, replay.lines
    assert len(set(replay.lines)) == len(replay.lines)
    assert not [line for line in replay.lines if "$PATH" in line]
    assert max(map(len, replay.lines)) <= 200, "short lines"


def test_what_matters_is_told() -> None:
    lines = "\n".join(Replay("cold").lines)
    positions = [lines.find(f"pytorch-simple: {each}") for each in COMING_UP]
    assert -1 not in positions, lines
    assert positions == sorted(positions)
    assert "pods: pytorch-simple-master-0 Running, pytorch-simple-worker-0 Running" in lines


@pytest.mark.parametrize("name", ["cold", "warm"])
def test_the_live_view_stays_at_the_foot(name: str) -> None:
    replay = Replay(name)
    assert max(replay.heights) <= 15
    assert rows(replay.view, replay.now, 80, 24) == [], "nothing is left of it"

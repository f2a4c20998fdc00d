"""What a checkpoint costs a training, by its size: written within it, and beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.conftest import Bench, Recorder, show, table

pytestmark = pytest.mark.bench

SIZES_MIB = (2, 20, 200, 1024, 5120)
ROUNDS = 3
"""Of a thorough run."""
INTERVAL_S = 60
"""The trainer's default of --checkpoint-seconds."""


def test_checkpoints(
    bench: Bench, thorough: bool, record: Recorder, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """On this machine's disk: the page says which."""
    tmp_path.chmod(0o777)
    rows, data = [], []
    for size in SIZES_MIB:
        rounds = ROUNDS if thorough else 1
        command = f"cd /opt/mnist && python3 /bench/checkpoints.py /folder {size} {rounds}"
        found = json.loads(bench.run(command, volumes=(f"{tmp_path}:/folder",)))
        within, paused, written = (found[name] for name in ("within", "paused", "written"))
        seconds = {"within_s": within, "pause_s": paused, "on_disk_s": written}
        data.append({"mib": size, **seconds, "pace": found["slowed"], "peak_mib": found["peak_mib"]})
        rows.append(
            [
                f"{size} MiB",
                f"{within:.3f} s",
                f"{paused:.3f} s",
                f"{paused / INTERVAL_S:.2%}",
                f"{written:.3f} s",
                f"{found['slowed']:.2f}",
                f"{found['peak_mib']} MiB",
            ]
        )
    title = f"state | within | pause | of {INTERVAL_S} s | on disk after | pace meanwhile | most memory"
    show(request, f"\n{table(title, rows)}")
    record("checkpoints", data)

"""A stack's job, and a folder with runs of it; nothing is asked of an engine."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.unit.toolchain.runs.conftest import Models, epoch
from toolchain.planning import loopback, stack_job
from toolchain.planning.checkpoint_sizes import CHECKPOINT
from toolchain.planning.model import Fabric, Link
from toolchain.planning.stack_job import Job
from toolchain.runs import records

RECORDED = Path(__file__).with_name("recorded") / CHECKPOINT
# Bytes that the recorded checkpoint's training exchanges: 36 parameters, the loss, 12 numbers in buffers.
RECORDED_SIZE = 4 * (36 + 1 + 12)
MEASURED = Fabric("loopback", Link(1e-4, 1e9), "measured by a test")
DEV = Job("mnist", 2, 1, 0, "gloo", True, "lenet", 64)
OWN_NETWORK = Job("mnist", 2, 1, 0, "gloo", True, "shapes:ResNet", 64)
OWN_IMAGE = Job("mnist", 2, 1, 0, "gloo", True)
GPUS = Job("mnist", 3, 4, 1, "nccl", False, "convnet", 64)


class Stack:
    """What `stack_job` would find, and the runs."""

    def __init__(self, models: Models) -> None:
        self.job, self.models = DEV, models

    def run(self, name: str = "mnist-01234567", *speeds: float, finished: bool = True, **config: Any) -> Path:
        """A run of two replicas with 64 images a step; the first of its lines counts warming up as well."""
        lines = [
            {"step": 10 * place, "epoch": 1, "loss": 1.0, "images_per_s": each}
            for place, each in enumerate((1.0, *(speeds or (4000.0, 5000.0, 9000.0))))
        ]
        folder = self.models.run(
            name, *lines, epoch(1, 0.9), weights="model" if finished else "", **{"global_batch": 64, **config}
        )
        shutil.copy(RECORDED, folder / CHECKPOINT)
        return folder


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stack:
    made = Stack(Models(tmp_path / "models"))
    monkeypatch.setattr(records, "MODELS", made.models.folder)
    monkeypatch.setattr(stack_job, "job", lambda _stack, _name: made.job)
    monkeypatch.setattr(loopback, "measure", lambda: MEASURED)
    monkeypatch.setattr(loopback, "cores", lambda: 8)
    return made


def told(text: str) -> dict[str, Any]:
    """JSON that a command printed."""
    found: dict[str, Any] = json.loads(text)
    return found

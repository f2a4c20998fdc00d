"""Runs of made-up trainings, as their folders tell of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from toolchain.runs import comparison, records

CONFIG = {"dataset": "mnist", "network": "lenet", "epochs": 2, "world_size": 2, "lr": 0.01}


def epoch(number: int, accuracy: float) -> dict[str, Any]:
    return {"epoch": number, "accuracy": accuracy, "test_loss": 1 - accuracy, "training_s": 10.0 * number}


class Models:
    """The folder models/; each run is a minute later than the one before."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.minutes = 0

    def run(
        self, name: str, *epochs: dict[str, Any], stack: str = "dev", weights: str = "", **config: Any
    ) -> Path:
        made = self.folder / stack / "runs" / name
        made.mkdir(parents=True)
        (made / "config.json").write_text(json.dumps({**CONFIG, **config}))
        lines = [{"step": 0, "loss": 2.3}, *epochs]
        (made / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        for weight in ("checkpoint.pt", "mnist_cnn.best.pt", *(["mnist_cnn.pt"] if weights else [])):
            (made / weight).write_text(weights or "not finished")
        self.minutes += 1
        for file in made.iterdir():
            os.utime(file, (60 * self.minutes, 60 * self.minutes))
        return made


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Models:
    made = Models(tmp_path / "models")
    monkeypatch.setattr(records, "MODELS", made.folder)
    monkeypatch.setattr(comparison, "FOLDER", tmp_path / "comparisons")
    return made

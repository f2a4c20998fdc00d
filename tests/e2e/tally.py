"""A training that takes as long as a test wants; its result tells whether each example was trained on once an epoch."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.project import Project

MODELS = "/opt/mnist/models"
# Each epoch takes 1 / EPOCHS from the weight of each of 64 examples: at the end, each one is -1 to the bit.
EPOCHS, BATCH = 512, 8
TALLY = """
import pathlib, time, torch
from torch import nn

def numbers():
    part = (torch.arange(64), torch.zeros(64))
    return part, part

class Tally(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = nn.Embedding(64, 1)
        nn.init.zeros_(self.weights.weight)

    def forward(self, x):
        if self.training and not pathlib.Path(__file__).with_name("hurry").exists():
            time.sleep(PAUSE_S)
        return self.weights(x)

    def loss(self, outputs, targets):
        return 1 + outputs[:, 0]

    def metric(self, outputs, targets):
        return outputs[:, 0] ** 2
"""
TRAINING = {"epochs": EPOCHS, "lr": BATCH / EPOCHS, "logInterval": 1}
ARGS = [
    *("--network", "tally:Tally", "--data", "tally:numbers", "--momentum", "0"),
    *("--global-batch-size", str(BATCH), "--checkpoint-seconds", "0"),
]
ENV = {"PYTHONPATH": f"/opt/trainstack:{MODELS}"}
JOB: dict[str, Any] = {"training": TRAINING, "args": ARGS, "env": ENV}


def place(project: Project, pause_s: float = 0.3) -> None:
    """Where the job finds the network; from now on each step takes `pause_s` seconds."""
    project.models.mkdir(parents=True, exist_ok=True)
    (project.models / "tally.py").write_text(f"PAUSE_S = {pause_s}\n{TALLY}")
    (project.models / "hurry").unlink(missing_ok=True)


def hurry(project: Project) -> None:
    """Let the rest of the training take no time."""
    (project.models / "hurry").touch()


def is_whole(result: dict[str, Any]) -> bool:
    """Whether the last line of metrics.jsonl tells that no example was lost or trained on twice."""
    return (result["epoch"], result["accuracy"], result["test_loss"]) == (EPOCHS, 1.0, 0.0)


def metrics(project: Project, job: str) -> list[dict[str, Any]]:
    """What the latest run of `job` has written about its steps and epochs; nothing before the first."""
    files = sorted(project.models.glob(f"runs/{job}-*/metrics.jsonl"), key=lambda each: each.stat().st_mtime)
    whole, _, _ = files[-1].read_text().rpartition("\n") if files else ("", "", "")
    return [json.loads(line) for line in whole.splitlines()]


def last(project: Project, job: str) -> dict[str, Any]:
    """The last of them."""
    return metrics(project, job)[-1]


def steps(project: Project, job: str) -> int:
    """Steps taken by the latest run of `job`."""
    return max((int(each["step"]) for each in metrics(project, job)), default=0)

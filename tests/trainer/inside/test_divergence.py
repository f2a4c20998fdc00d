"""Training that ends in numbers which are none fails, and leaves the model on the volume alone."""

import json

import pytest
import torch

from tests.inside.conftest import Job
from trainer.launch import ExitStatus


@pytest.mark.parametrize("world", [1, 2])
def test_a_loss_that_is_no_number_fails_the_run(job: Job, world: int) -> None:
    job.train(run="good")
    good = (job.volume / "mnist_cnn.pt").read_bytes()
    ranks = job.start("--lr", "1e4", "--epochs", "2", world=world)
    assert ranks.wait() == [ExitStatus.DIVERGED] * world, ranks.output
    assert "training has diverged" in ranks.output[0]
    assert "take a smaller --lr" in ranks.output[0]
    assert (job.volume / "mnist_cnn.pt").read_bytes() == good
    assert not (job.folder() / "mnist_cnn.pt").exists()
    for line in (job.folder() / "metrics.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} among the metrics"))


@pytest.mark.parametrize("broken", ["weight", "buffer"])
def test_weights_that_are_no_numbers_fail_the_run(job: Job, broken: str) -> None:
    """In the last step, so that no later loss shows it."""
    script = (
        "import torch\n"
        "from trainer import __main__, train\n"
        "step = train.Training.step\n"
        "def breaking(self, share, lr):\n"
        "    step(self, share, lr)\n"
        "    if self.progress.step == 5:\n"
        f"        (self.flat.values if {broken == 'weight'} else self.flat.changes)[0] = float('inf')\n"
        "train.Training.step = breaking\n"
        "__main__.run()\n"
    )
    own = ("--data", "tests.inside.own:tiny", "--network", "tests.inside.own:Normed")
    ranks = job.start(*own, "--global-batch-size", "16", world=2, script=script)
    assert ranks.wait() == [ExitStatus.DIVERGED] * 2, ranks.output
    assert "weights are not finite" in ranks.output[0]
    assert not (job.volume / "mnist_cnn.pt").exists()


def test_no_restart_mends_it() -> None:
    assert 0 < ExitStatus.DIVERGED < 128, "the operator's policy ExitCode restarts from 128 on"
    assert torch.isfinite(torch.tensor(float("nan"))).item() is False

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
        f"        layer = self.network.layers[1]\n"
        f"        (layer.weight.data if {broken == 'weight'} else layer.running_var)[0] = float('inf')\n"
        "train.Training.step = breaking\n"
        "__main__.run()\n"
    )
    own = ("--data", "tests.inside.own:tiny", "--network", "tests.inside.own:Normed")
    ranks = job.start(*own, "--global-batch-size", "16", world=2, script=script)
    assert ranks.wait() == [ExitStatus.DIVERGED] * 2, ranks.output
    assert "weights are not finite" in ranks.output[0]
    assert not (job.volume / "mnist_cnn.pt").exists()


@pytest.mark.parametrize("metric", ["nan", "inf", "-inf"])
def test_a_metric_that_is_no_number_fails_the_run_and_leaves_the_best_model(job: Job, metric: str) -> None:
    """Compared with NaN no epoch is better or worse, so that each would be the best, and patience without end."""
    own = ("--network", "tests.inside.own:Undefined", "--data", "tests.inside.own:numbers", "--lr", "1")
    options = (*own, "--momentum", "0", "--global-batch-size", "8", "--patience", "1")
    ranks = job.start(*options, "--epochs", "3", world=2, METRIC=metric)
    assert ranks.wait() == [ExitStatus.DIVERGED] * 2, ranks.output
    assert f"the accuracy on the test examples is {metric} in epoch 2" in ranks.output[0]
    assert "the network's own metric" in ranks.output[0]
    best = torch.load(job.folder() / "mnist_cnn.best.pt", weights_only=True)["weights.weight"]
    assert torch.equal(best, torch.full_like(best, -1 / 8)), "the first epoch's"
    lines = [json.loads(line) for line in (job.folder() / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines if "accuracy" in line] == [1]


def test_no_restart_mends_it() -> None:
    assert 0 < ExitStatus.DIVERGED < 128, "the operator's policy ExitCode restarts from 128 on"
    assert torch.isfinite(torch.tensor(float("nan"))).item() is False

"""A run that was killed in the middle of an epoch ends in the file of an undisturbed one: every network, recipe,
precision, number of ranks and threads, and with all that a user may add."""

import re

import pytest
import torch

from tests.inside.conftest import Job
from trainer import journal, networks
from trainer.recipes import RECIPES

# Dies after step 8, of 6 an epoch, unless it has been killed before; a checkpoint follows each step.
SCRIPT = """
import os, pathlib, signal
from trainer import __main__, precision, train
precision._multiplies_bf16 = lambda device: True  # emulated where it has to be
step = train.Training.step
def dying(self, share, lr):
    step(self, share, lr)
    died = pathlib.Path("died")
    if self.progress.step == 8 and os.environ["RANK"] == os.environ["VICTIM"] and not died.exists():
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)
train.Training.step = dying
__main__.run()
"""
TINY = (
    "--data",
    "tests.inside.own:tiny",
    "--global-batch-size",
    "16",
    "--epochs",
    "2",
    "--checkpoint-seconds",
    "0",
)
NORMED = ("--network", "tests.inside.own:Normed", "--recipe", "fast", "--no-bf16")


def prove(job: Job, *options: str, world: int = 1, threads: str = "1") -> None:
    common = {"OMP_NUM_THREADS": threads}
    whole = job.start(*options, world=world, run="whole", script=SCRIPT, VICTIM="none", **common)
    assert whole.wait() == [0] * world, whole.output
    ranks = job.start(*options, world=world, script=SCRIPT, VICTIM=str(world - 1), **common)
    ranks.supervise()
    assert (ranks.folder / "died").exists(), "the victim lived and was killed"
    assert re.search(r"^resumed at epoch 2, image (16|32|48)$", ranks.output[0], re.MULTILINE), ranks.output[
        0
    ]
    assert job.model() == job.model("whole")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe(job: Job, recipe: str, world: int) -> None:
    prove(job, *TINY, "--recipe", recipe, world=world)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("network", networks.NETWORKS)
@pytest.mark.parametrize("precision", ["--bf16", "--no-bf16"])
def test_every_network_in_every_precision(job: Job, network: str, precision: str) -> None:
    prove(job, *TINY, "--network", network, precision, world=2)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("network", ["lenet", "convnet"])
def test_several_threads(job: Job, network: str) -> None:
    prove(job, *TINY, "--network", network, threads="2")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("data", ["colours", "files", "streams"])
def test_ones_own_network_with_buffers_on_ones_own_data(job: Job, data: str, world: int) -> None:
    prove(job, *TINY, "--data", f"tests.inside.own:{data}", *NORMED, world=world)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize("network", ["fast", "convnet"])
@pytest.mark.parametrize("by", ["torch", "numpy", "python"])
def test_data_that_are_drawn_at_random(job: Job, by: str, network: str, world: int) -> None:
    """A network that draws random numbers in each step, and one that does not; the results are the same, too."""
    prove(job, *TINY, "--data", f"tests.inside.own:jittered_by_{by}", "--network", network, world=world)
    results = [
        [
            (line["accuracy"], line["test_loss"])
            for line in journal.read(job.folder(run))
            if "accuracy" in line
        ]
        for run in ("run", "whole")
    ]
    assert results[0] == results[1]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "options",
    [
        ("--optimizer", "AdamW", "--optimizer-args", '{"betas": [0.8, 0.95]}', "--weight-decay", "0.1"),
        ("--optimizer", "adam", "--schedule", "cosine", "--warm-up", "0.2", "--clip", "0.5"),
        ("--accumulate", "3", "--schedule", "StepLR", "--schedule-args", '{"step_size": 1}'),
        ("--optimizer", "RMSprop", "--patience", "5"),
    ],
    ids=" ".join,
)
def test_all_that_a_user_may_add(job: Job, options: tuple[str, ...]) -> None:
    prove(job, *TINY, *NORMED, *options, world=2)


def test_ranks_have_the_same_buffers_the_mean_of_theirs(job: Job) -> None:
    job.train(*TINY, *NORMED, world=2, run="two")
    job.train(*TINY, *NORMED, world=1, run="one")
    models = [torch.load(job.folder(run) / "mnist_cnn.pt", weights_only=True) for run in ("one", "two")]
    one, two = (model["layers.1.num_batches_tracked"].item() for model in models)
    assert one == two == 12, "2 epochs of 6 steps"
    assert not torch.equal(models[1]["layers.1.running_var"], torch.ones(8))


def test_another_number_of_threads_is_warned_about(job: Job) -> None:
    first = job.start(*TINY, run="run", script=SCRIPT, VICTIM="0")
    assert first.wait() == [-9]
    output = job.train(*TINY, OMP_NUM_THREADS="2")
    assert "resumed at epoch 2" in output
    assert "warning: threads: [1] before, [2] now; the model will not be the same file bit for bit" in output


def test_more_ranks_are_warned_about(job: Job) -> None:
    first = job.start(*TINY, run="run", script=SCRIPT, VICTIM="0")
    assert first.wait() == [-9]
    output = job.train(*TINY, world=2)
    assert "warning: replicas: 1 before, 2 now" in output
    assert "warning: threads: [1] before, [1, 1] now" in output

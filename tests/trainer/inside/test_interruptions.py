"""Killed at a random moment, started again: the weights are those of a run that nobody disturbed."""

import os
import random
import signal
import time
from dataclasses import dataclass

import pytest

from tests.inside.conftest import Job

OPTIONS = ("--epochs", "4", "--log-interval", "5", "--network", "lenet")
KILLS = int(os.environ.get("KILLS", "2"))
TERMINATED = 128 + signal.SIGTERM
RETRY = 138


@dataclass(frozen=True)
class Whole:
    model: bytes
    seconds: float


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    job = Job(tmp_path_factory.mktemp("undisturbed") / "volume")
    job.volume.mkdir()
    began = time.monotonic()
    job.train(*OPTIONS, world=2)
    return Whole(job.model(), time.monotonic() - began)


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("trial", range(KILLS))
def test_kill_9_changes_nothing(job: Job, undisturbed: Whole, rank: int, trial: int) -> None:
    ranks = job.start(*OPTIONS, world=2)
    time.sleep(random.uniform(0.1, 0.95) * undisturbed.seconds)
    ranks.kill(rank)
    ranks.supervise()
    assert job.model() == undisturbed.model


def wait_for_steps(job: Job) -> None:
    deadline = time.monotonic() + 60
    path = job.folder() / "metrics.jsonl"
    while time.monotonic() < deadline:
        if path.exists() and '"step": 10,' in path.read_text():
            return
        time.sleep(0.02)
    raise AssertionError("the job made no step in a minute")


@pytest.mark.parametrize("rank", [0, 1])
def test_sigterm_loses_no_whole_step(job: Job, undisturbed: Whole, rank: int) -> None:
    ranks = job.start(*OPTIONS, world=2)
    wait_for_steps(job)
    ranks.kill(rank, signal.SIGTERM)
    statuses = ranks.wait()
    assert statuses[rank] == TERMINATED
    assert statuses[1 - rank] == RETRY, ranks.output[1 - rank]
    output = job.train(*OPTIONS, world=2)
    assert "resumed at epoch 1, image" in output or "resumed at epoch 2" in output
    assert "image 0" not in output.splitlines()[0], "it goes on in the middle of an epoch"
    assert job.model() == undisturbed.model


def test_a_lost_peer_is_explained(job: Job) -> None:
    ranks = job.start(*OPTIONS, world=2)
    wait_for_steps(job)
    ranks.kill(1)
    assert ranks.wait() == [RETRY, -signal.SIGKILL]
    assert "error: rank 0 lost another replica" in ranks.output[0]


def test_replicas_that_do_not_come_are_waited_for_and_named(job: Job) -> None:
    ranks = job.start("--timeout", "3", world=2)
    ranks.kill(1)
    assert ranks.wait() == [RETRY, -signal.SIGKILL]
    assert "rank 0 did not meet the other 1" in ranks.output[0]


def test_mpi_without_mpirun_does_not_train_each_rank_alone(job: Job) -> None:
    ranks = job.start("--backend", "mpi", world=2)
    assert ranks.wait() == [1, 1]
    for output in ranks.output:
        assert "error: " in output
        assert "use --backend gloo" in output
    assert not job.folder().exists()


def test_a_run_killed_between_its_last_files_is_finished(job: Job) -> None:
    """Without a name, it would begin anew if it counted as finished."""
    script = (
        "import os\n"
        "from trainer import __main__, journal\n"
        "if os.environ['RANK'] == '0':\n"
        "    journal.Journal.end = lambda *arguments: os._exit(9)\n"
        "__main__.run()\n"
    )
    ranks = job.start(script=script, world=2, run="")
    assert ranks.wait() == [9, RETRY], "rank 1 does not end before the model is there"
    output = job.train(world=2, run="")
    assert "resumed at epoch 2" in output
    (folder,) = (job.volume / "runs").iterdir()
    assert (folder / "report.html").exists()
    assert (folder / "mnist_cnn.pt").read_bytes() == (job.volume / "mnist_cnn.pt").read_bytes()


def test_an_interface_that_is_not_there_is_named(job: Job) -> None:
    ranks = job.start(world=2, GLOO_SOCKET_IFNAME="eth7")
    assert ranks.wait() == [1, 1]
    assert "GLOO_SOCKET_IFNAME names eth7, which this pod has not; use one of: lo" in ranks.output[0]

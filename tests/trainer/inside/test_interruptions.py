"""Killed at a random moment, started again: the weights are those of a run that nobody disturbed."""

import random
import re
import signal
import time

import pytest

from tests.inside.conftest import PATIENCE_S, Job
from trainer import checkpoint
from trainer.launch import ExitStatus

OPTIONS = ("--epochs", "3", "--log-interval", "5", "--network", "lenet")
TERMINATED, RETRY = ExitStatus.TERMINATED, ExitStatus.PEER_LOST


@pytest.mark.sampled(3)
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("trial", range(10))
def test_kill_9_changes_nothing(job: Job, undisturbed: bytes, rank: int, trial: int) -> None:
    """At a random moment after the first epoch's checkpoint, so that there is something to go on from."""
    ranks = job.start(*OPTIONS, world=2)
    wait_for_checkpoint(job)
    wait_for_step(job, random.randrange(25, 58))
    time.sleep(random.uniform(0, 0.1))
    assert ranks.processes[rank].poll() is None, "the victim lives"
    ranks.kill(rank)
    assert ranks.processes[rank].wait(PATIENCE_S) == -signal.SIGKILL
    ranks.supervise()
    assert re.search(r"^resumed at epoch [234], image", ranks.output[0], re.MULTILINE), ranks.output[0]
    assert job.model() == undisturbed


def test_a_replica_back_before_the_others_noticed_does_not_join_their_last_start(
    job: Job, undisturbed: bytes
) -> None:
    """Rank 0 takes three seconds to end after it has lost rank 1, and its store with it."""
    script = (
        "import os, time\n"
        "from trainer import __main__\n"
        "failed = __main__.failed\n"
        "def slowly(error, status=1):\n"
        "    time.sleep(3 if os.environ['RANK'] == '0' else 0)\n"
        "    return failed(error, status)\n"
        "__main__.failed = slowly\n"
        "__main__.run()\n"
    )
    ranks = job.start(*OPTIONS, world=2, script=script)
    wait_for_step(job, 25)
    ranks.kill(1)
    ranks.supervise()
    assert not any("did not meet" in output for output in ranks.output), (
        "nobody waits for ranks that are gone"
    )
    assert job.model() == undisturbed


def wait_for_checkpoint(job: Job) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not (job.folder() / checkpoint.NAME).exists():
        assert time.monotonic() < deadline, "there is no checkpoint"
        time.sleep(0.005)


def wait_for_step(job: Job, step: int) -> None:
    """Metrics have a line for every fifth step."""
    deadline = time.monotonic() + PATIENCE_S
    path = job.folder() / "metrics.jsonl"
    while time.monotonic() < deadline:
        found = re.findall(r'"step": (\d+)', path.read_text()) if path.exists() else []
        if found and int(found[-1]) >= step // 5 * 5:
            return
        time.sleep(0.005)
    raise AssertionError(f"the job did not get to step {step}")


# Gets SIGTERM while it takes step 13, of 23 an epoch.
TERMINATED_IN_STEP_13 = """
import os, signal, time
from trainer import __main__, train
step = train.Training.step
def interrupted(self, share, lr):
    step(self, share, lr)
    if self.progress.step == 12 and os.environ["RANK"] == os.environ["VICTIM"]:
        os.kill(os.getpid(), signal.SIGTERM)
        while not self.termination.requested:
            time.sleep(0.001)
train.Training.step = interrupted
__main__.run()
"""


@pytest.mark.parametrize("rank", [0, 1])
def test_sigterm_loses_no_whole_step(job: Job, undisturbed: bytes, rank: int) -> None:
    ranks = job.start(*OPTIONS, world=2, script=TERMINATED_IN_STEP_13, VICTIM=str(rank))
    statuses = ranks.wait()
    assert statuses[rank] == TERMINATED
    assert statuses[1 - rank] == RETRY, ranks.output[1 - rank]
    output = job.train(*OPTIONS, world=2)
    assert f"resumed at epoch 1, image {13 * 64}\n" in output
    assert job.model() == undisturbed


def test_a_lost_peer_is_explained(job: Job) -> None:
    ranks = job.start(*OPTIONS, world=2)
    wait_for_step(job, 10)
    ranks.kill(1)
    assert ranks.wait() == [RETRY, -signal.SIGKILL]
    assert "error: rank 0 lost another replica" in ranks.output[0]


def test_replicas_that_do_not_come_are_waited_for_and_named(job: Job) -> None:
    ranks = job.start("--timeout", "3", world=2)
    ranks.kill(1)
    assert ranks.wait() == [RETRY, -signal.SIGKILL]
    assert "rank 0 did not meet the other 1 of 2 ranks" in ranks.output[0]


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
    assert (
        "rank 0: GLOO_SOCKET_IFNAME names eth7, which this pod does not have; use one of: lo"
        in ranks.output[0]
    )

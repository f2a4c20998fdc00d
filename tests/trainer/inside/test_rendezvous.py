"""A rank killed at each of its steps towards the others: they notice, start again, and train as if nothing had been."""

import pytest

from tests.inside.conftest import Job

OPTIONS = ("--epochs", "1", "--network", "fast")
# Every use of the store is a step: first the trainer's own, then those of gloo while it connects.
SCRIPT = """
import os, pathlib, signal
import torch.distributed as dist
from trainer import __main__, rendezvous

last = int(os.environ.get("DIES_BEFORE_STEP", "0"))
taken, kept = [], []

class Steps(dist.Store):
    def __init__(self, store):
        super().__init__()
        self.store = store

def step(name):
    def call(self, *arguments):
        taken.append(name)
        if len(taken) == last:
            pathlib.Path("killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return getattr(self.store, name)(*arguments)
    return call

for name in ("set", "get", "wait", "check"):
    setattr(Steps, name, step(name))

def enter(*arguments, enter=rendezvous.enter):
    kept.append(Steps(enter(*arguments)))
    return kept[-1]

rendezvous.enter = enter
__main__.run()
"""
STEPS = {0: 11, 1: 8}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("rank", "step"), [(rank, step + 1) for rank in STEPS for step in range(STEPS[rank])]
)
def test_kill_9_while_the_ranks_meet_changes_nothing(
    job: Job, undisturbed: bytes, rank: int, step: int
) -> None:
    each = [{"DIES_BEFORE_STEP": str(step)} if rank == number else {} for number in range(2)]
    ranks = job.start(*OPTIONS, world=2, script=SCRIPT, each=each)
    ranks.supervise()
    assert (ranks.folder / "killed").exists(), "it came to this step"
    for output in ranks.output:
        assert "Connect timeout" not in output, f"gloo waited for a rank that was gone\n{output}"
    assert job.model() == undisturbed


def test_the_last_step_is_among_them(job: Job) -> None:
    """With one step more on either rank, nobody is killed: the list above is whole."""
    for rank, steps in STEPS.items():
        each = [{"DIES_BEFORE_STEP": str(steps + 1)} if rank == number else {} for number in range(2)]
        ranks = job.start(*OPTIONS, world=2, run=f"rank-{rank}", script=SCRIPT, each=each)
        assert ranks.wait() == [0, 0], "\n".join(ranks.output)
        assert not (ranks.folder / "killed").exists()

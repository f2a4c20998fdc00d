"""What rank 0 writes about a run: events that TensorBoard reads, metrics that survive a crash."""

import json
import struct
from pathlib import Path

import pytest

from tests.inside.conftest import TINY, Job
from trainer import journal
from trainer.evaluation import Metrics


def test_the_checksum_is_crc_32c() -> None:
    # RFC 3720, appendix B.4: 32 bytes of zeros have the checksum 0x8A9136AA.
    unmasked = (journal.checksum(bytes(32)) - journal.MASK) & 0xFFFFFFFF
    assert (unmasked << 15 | unmasked >> 17) & 0xFFFFFFFF == 0x8A9136AA


def test_event_files_are_rows_of_checked_records(tmp_path: Path) -> None:
    journal.EventFile(tmp_path).add(300, {"loss": 0.5})
    (file,) = tmp_path.glob("events.out.tfevents.*")
    raw, payloads = file.read_bytes(), []
    while raw:
        (length,) = struct.unpack_from("<Q", raw)
        assert struct.unpack_from("<I", raw, 8)[0] == journal.checksum(raw[:8])
        payload, raw = raw[12 : 12 + length], raw[12 + length :]
        assert struct.unpack_from("<I", raw)[0] == journal.checksum(payload)
        payloads.append(payload)
        raw = raw[4:]
    assert b"brain.Event:2" in payloads[0]
    assert payloads[1][9:12] == b"\x10\xac\x02", "step 300 as a varint"
    assert b"\x04loss\x15" + struct.pack("<f", 0.5) in payloads[1]


HISTORY = [
    {"step": 0, "epoch": 1, "loss": 2.0},
    {"step": 4, "epoch": 1, "loss": 1.5},
    {"step": 5, "epoch": 1, "accuracy": 0.5},
    {"step": 5, "epoch": 2, "loss": 1.0},
    {"step": 10, "epoch": 2, "accuracy": 0.6},
]


@pytest.mark.parametrize(
    ("step", "epoch", "kept"),
    [(0, 1, 0), (3, 1, 1), (5, 1, 2), (5, 2, 3), (7, 2, 4), (10, 2, 4), (10, 3, 5)],
)
def test_an_interrupted_run_drops_the_lines_that_it_writes_again(
    tmp_path: Path, step: int, epoch: int, kept: int
) -> None:
    """With all of an epoch's steps done, its result is written again unless the epoch counts as done, too."""
    text = "".join(f"{json.dumps(line)}\n" for line in HISTORY)
    (tmp_path / journal.METRICS).write_text(text + '{"step": 11, "lo')
    journal.Journal(tmp_path, None, speaks=True).begin({}, step, epoch)
    assert journal.read(tmp_path) == HISTORY[:kept]


@pytest.mark.parametrize(
    ("step", "epoch", "before"), [(0, 1, 0), (5, 1, 0), (5, 2, 3), (7, 2, 3), (10, 3, 8)]
)
def test_the_time_in_training_goes_on_from_the_last_result_that_stays(
    tmp_path: Path, step: int, epoch: int, before: float
) -> None:
    seconds = {1: 3.0, 2: 8.0}
    lines = [
        {**line, "test_loss": 1.0, "training_s": seconds[int(line["epoch"])]} if "accuracy" in line else line
        for line in HISTORY
    ]
    (tmp_path / journal.METRICS).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    went_on = journal.Journal(tmp_path, None, speaks=True)
    went_on.begin({}, step, epoch)
    for passed in (2.0, 4.0):
        went_on.epoch(epoch, step, Metrics(0.5, 1.0), passed)
    assert [line["training_s"] for line in journal.read(tmp_path)[-2:]] == [before + 2, before + 4]


def test_a_resumed_run_has_trained_longer(job: Job) -> None:
    for epochs in ("1", "2", "3"):
        job.train(*TINY, "--epochs", epochs)
    seconds = [line["training_s"] for line in journal.read(job.folder()) if "accuracy" in line]
    assert len(seconds) == 3
    assert seconds == sorted(seconds)


# Dies as soon as the method has returned in epoch 2, before the checkpoint that says that the epoch is done.
DYING = """
import os, pathlib, signal
from trainer import __main__, journal, train
owner = {owner}
method = owner.{method}
def dying(self, *arguments):
    result = method(self, *arguments)
    epoch = self.progress.epoch if owner is train.Training else arguments[0]
    if epoch == 2 and not pathlib.Path("died").exists():
        pathlib.Path("died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return result
owner.{method} = dying
__main__.run()
"""


def told(job: Job, run: str) -> list[dict[str, float]]:
    """The lines without what no two runs have in common."""
    lines = journal.read(job.folder(run))
    return [{key: value for key, value in line.items() if not key.endswith("_s")} for line in lines]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seconds", ["0", "60"])
@pytest.mark.parametrize(
    ("owner", "method"),
    [
        ("train.Training", "epoch"),
        ("train.Training", "measure"),
        ("journal.Journal", "epoch"),
        ("train.Training", "keep_best"),
    ],
)
def test_wherever_a_run_dies_after_an_epoch_each_line_is_there_once(
    job: Job, owner: str, method: str, seconds: str
) -> None:
    options = (*TINY, "--epochs", "3", "--log-interval", "2", "--checkpoint-seconds", seconds)
    job.train(*options, run="whole")
    ranks = job.start(*options, script=DYING.format(owner=owner, method=method))
    ranks.supervise()
    assert (ranks.folder / "died").exists(), "the run was killed"
    assert told(job, "run") == told(job, "whole")


LINES = [{"step": 0, "loss": 2.0}, {"step": 5, "loss": 1.0}, {"step": 9, "accuracy": 0.5}]
TEXT = "".join(f"{json.dumps(line)}\n" for line in LINES).encode()


@pytest.mark.parametrize(
    "end", [b"", b"\0" * 100, b"\xff\xfe}\n", b"}\n", b"[1]\n", b"{}\n", b'{"step": 7, "lo']
)
def test_a_torn_end_is_dropped(end: bytes, tmp_path: Path) -> None:
    """At every byte, and with whatever a file system puts there."""
    for cut in range(len(TEXT) + 1):
        (tmp_path / journal.METRICS).write_bytes(TEXT[:cut] + end)
        found = journal.read(tmp_path)
        whole = TEXT[:cut].count(b"\n")
        assert found[:whole] == LINES[:whole]
        assert len(found) <= whole + 1, "the end may make the torn line whole again"


def test_a_run_with_a_torn_file_goes_on(job: Job) -> None:
    job.train(*TINY, "--epochs", "3", run="whole")
    job.train(*TINY, "--epochs", "2")
    path = job.folder() / journal.METRICS
    path.write_bytes(path.read_bytes()[:-10] + b"\0" * 64)
    job.train(*TINY, "--epochs", "3")
    lines = journal.read(job.folder())
    assert [line["epoch"] for line in lines if "accuracy" in line] == [1, 3], "one line was torn"
    assert path.read_bytes().count(b"\n") == len(lines)
    assert job.model() == job.model("whole")

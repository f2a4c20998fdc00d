"""Which runs a finished one removes: never the latest model's, one in use, another job's, or a hand-named one."""

import os
import shutil
from pathlib import Path

import pytest

from tests.inside.conftest import TINY, Job
from trainer import retention, volume
from trainer.volume import VolumeError

DAY_S = retention.DAY_S
NOW = 1_700_000_000
OWN = "mnist-00000000"


def finished(runs: Path, name: str, days: float = 0.0) -> Path:
    """A run whose model was written so many days before NOW, and all else before that."""
    folder = runs / name
    folder.mkdir(parents=True)
    for file in ("config.json", "checkpoint.pt", volume.MODEL):
        (folder / file).write_text(name)
        age = days * DAY_S + (0 if file == volume.MODEL else 1)
        os.utime(folder / file, (NOW - age, NOW - age))
    return folder


def name(number: int, job: str = "mnist") -> str:
    return f"{job}-{number:08x}"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Five runs: the own one, and others one to four days older."""
    folder = tmp_path / "runs"
    for number in range(5):
        finished(folder, name(number), days=number)
    return folder


def left(runs: Path) -> set[str]:
    return {each.name for each in runs.iterdir()}


@pytest.mark.parametrize(
    ("number", "days", "kept"),
    [
        (None, None, 5),
        (1, None, 1),
        (3, None, 3),
        (9, None, 5),
        (None, 2.0, 3),
        (None, 0.5, 1),
        (None, 0.0, 1),
        (4, 1.0, 2),
        (2, 3.0, 2),
    ],
)
def test_what_exceeds_either_limit_goes_the_oldest_first(
    runs: Path, number: int | None, days: float | None, kept: int
) -> None:
    removed = retention.clean(runs / OWN, number, days)
    assert removed == [name(each) for each in range(4, kept - 1, -1)]
    assert left(runs) == {name(each) for each in range(kept)}
    assert retention.clean(runs / OWN, number, days) == []


def test_the_own_run_stays_also_when_others_have_newer_models(runs: Path) -> None:
    assert name(4) not in retention.clean(runs / name(4), 1, 0.0)
    assert name(4) in left(runs)


@pytest.mark.parametrize("file", ["config.json", "checkpoint.pt", "metrics.jsonl"])
def test_a_finished_run_that_somebody_goes_on_with_is_in_use(runs: Path, file: str) -> None:
    (runs / name(3) / file).write_text("again")
    os.utime(runs / name(3) / file, (NOW, NOW))
    assert retention.clean(runs / OWN, 1, 0.0) == [name(4), name(2), name(1)]
    assert left(runs) == {OWN, name(3)}


def test_a_run_without_a_model_may_be_gone_on_with(runs: Path) -> None:
    (runs / name(4) / volume.MODEL).unlink()
    retention.clean(runs / OWN, 1, 0.0)
    assert left(runs) == {OWN, name(4)}


@pytest.mark.parametrize(
    "other",
    [
        name(1, "other"),
        name(1, "mnist-big"),
        "mnist",
        "mnist-2",
        "mnist-0000000g",
        "mnist-000000000",
        "notes",
    ],
)
def test_what_is_not_of_this_job_stays(runs: Path, other: str) -> None:
    finished(runs, other, days=99)
    (runs / "mnist-ffffffff").symlink_to(runs / other)
    retention.clean(runs / OWN, 1, 0.0)
    assert left(runs) == {OWN, other, "mnist-ffffffff"}


@pytest.mark.parametrize("own", ["mnist", "mnist-2", "run"])
def test_a_run_named_by_hand_removes_none(runs: Path, own: str) -> None:
    finished(runs, own)
    assert retention.clean(runs / own, 1, 0.0) == []
    assert len(left(runs)) == 6


def test_what_a_killed_removal_has_left_goes_with_the_next(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(folder: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as briefly:
        briefly.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            retention.clean(runs / OWN, 1, None)
    assert name(4) not in left(runs), "nobody takes half a run for one to go on with"
    others = finished(runs, f"{retention.REMOVED}{name(1, 'mnist-big')}")
    retention.clean(runs / OWN, 1, None)
    assert left(runs) == {OWN, others.name}


def test_a_volume_that_cannot_be_written_is_named(runs: Path) -> None:
    runs.chmod(0o500)
    try:
        with pytest.raises(VolumeError, match="Permission denied"):
            retention.clean(runs / OWN, 1, None)
    finally:
        runs.chmod(0o700)
    assert len(left(runs)) == 5


def test_a_job_removes_its_old_runs_when_it_has_succeeded(job: Job) -> None:
    """And one that changes nothing, as its run is finished, removes none of use either."""
    for number in (1, 2):
        job.train(*TINY, "--seed", str(number), run=name(number))
    finished(job.volume / "runs", name(9, "other"), days=99)
    said = job.train(*TINY, run=name(3), TRAINER_KEEP_RUNS="2")
    assert f"removed run {name(1)}" in said
    assert left(job.volume / "runs") == {name(2), name(3), name(9, "other")}
    assert (job.volume / volume.MODEL).read_bytes() == job.model(name(3))
    assert "removed" not in job.train(*TINY, run=name(3), TRAINER_KEEP_RUNS="2")


def test_a_failed_run_removes_none(job: Job) -> None:
    finished(job.volume / "runs", name(1), days=99)
    ranks = job.start("--epochs", "1", "--lr", "1e30", run=name(2), TRAINER_KEEP_RUNS="1")
    assert ranks.wait() != [0]
    assert left(job.volume / "runs") == {name(1), name(2)}


def test_a_removal_that_fails_is_said_and_fails_no_run(job: Job) -> None:
    old = finished(job.volume / "runs", name(1), days=99)
    old.chmod(0o500)
    ranks = job.start(*TINY, "--keep-days", "1", run=name(2))
    statuses = ranks.wait()
    for folder in (job.volume / "runs").iterdir():
        folder.chmod(0o700)
    assert statuses == [0], ranks.output
    assert "old runs are not removed: " in ranks.output[0]
    assert (job.volume / volume.MODEL).exists()


def test_a_finished_run_is_taken_again_whatever_the_options(job: Job) -> None:
    first = job.train("--epochs", "2", run="older")
    job.train(run="newer")
    latest = job.volume / "mnist_cnn.pt"
    assert latest.read_bytes() == job.model("newer") != job.model("older")
    before = {path.name: path.read_bytes() for path in job.folder("older").iterdir()}
    options = ("--network", "convnet", "--epochs", "9", "--data-dir", "/nowhere", "--dataset", "mnist")
    output = job.train(*options, run="older", world=2, TRAINER_TAKE_FINISHED="true")
    assert latest.read_bytes() == job.model("older")
    assert output.splitlines()[-3:] == first.splitlines()[-3:], "accuracy, loss and the closing line"
    assert {path.name: path.read_bytes() for path in job.folder("older").iterdir()} == before


def test_a_run_that_is_not_finished_cannot_be_taken(job: Job) -> None:
    job.train(*TINY, run="older")
    (job.volume / "runs" / "unfinished").mkdir()
    latest = (job.volume / "mnist_cnn.pt").read_bytes()
    for asked in ("unfinished", "nowhere", ""):
        ranks = job.start("--take-finished", run=asked)
        assert ranks.wait() == [1], asked
        assert "finished runs: older" in ranks.output[0], asked
        assert (job.volume / "mnist_cnn.pt").read_bytes() == latest, asked

"""What lands on the volume: whole files only; and a volume that cannot take them is refused before training."""

import errno
import os
from pathlib import Path

import pytest

from tests.inside.conftest import Job
from trainer import volume
from trainer.launch import ExitStatus
from trainer.volume import VolumeError


def test_a_write_replaces_the_whole_file_and_leaves_no_other(tmp_path: Path) -> None:
    path = tmp_path / "file"
    volume.write(path, b"old")
    reader = path.open("rb")
    volume.write(path, b"new")
    assert reader.read() == b"old", "who has the old file open still reads it whole"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("hostname", "name"),
    [("pytorch-simple-master-0", "pytorch-simple"), ("a-worker-12", "a"), ("laptop", "laptop")],
)
def test_a_run_is_named_after_its_job(hostname: str, name: str) -> None:
    assert volume.job_name(hostname) == name


def test_an_unnamed_run_goes_on_until_it_is_finished(tmp_path: Path) -> None:
    first = volume.open_run(tmp_path, None, required=True)
    assert first
    assert volume.open_run(tmp_path, None, required=True) == first
    (first / volume.MODEL).touch()
    second = volume.open_run(tmp_path, None, required=True)
    assert second
    assert second.name == f"{first.name}-2"


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS, errno.EDQUOT])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failing_write_is_named_and_leaves_the_old_file(
    call: str, reason: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path := tmp_path / "file").write_bytes(b"old")

    def fail(*arguments: object) -> None:
        raise OSError(reason, os.strerror(reason))

    monkeypatch.setattr(os if call == "fsync" else Path, call, fail)
    with pytest.raises(VolumeError, match=f"file: {os.strerror(reason)}; the volume has to be mounted"):
        volume.write(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_directory_of_the_image_that_cannot_be_written_is_no_volume(tmp_path: Path) -> None:
    assert volume.open_run(tmp_path / "missing", "run", required=False) is None
    tmp_path.chmod(0o500)
    assert volume.open_run(tmp_path, "run", required=False) is None
    with pytest.raises(VolumeError, match="Permission denied"):
        volume.open_run(tmp_path, "run", required=True)


def test_a_mount_has_to_be_writable_whoever_named_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "ismount", lambda path: path == tmp_path)
    tmp_path.chmod(0o500)
    with pytest.raises(VolumeError, match="Permission denied"):
        volume.open_run(tmp_path, "run", required=False)


def test_a_named_directory_is_made(tmp_path: Path) -> None:
    assert (
        volume.open_run(tmp_path / "new" / "models", "run", required=True) == tmp_path / "new/models/runs/run"
    )


@pytest.mark.parametrize("what", ["volume", "runs", "run", "old run"])
def test_a_folder_that_cannot_be_written_is_refused_before_training(job: Job, what: str) -> None:
    run = job.folder()
    run.mkdir(parents=True)
    if what == "run":
        run.rmdir()
    {"volume": job.volume, "runs": run.parent, "run": run.parent, "old run": run}[what].chmod(0o500)
    ranks = job.start(world=2)
    statuses = ranks.wait()
    for folder in (job.volume, run.parent, run):
        if folder.exists():
            folder.chmod(0o700)
    expected = 0 if what == "runs" else ExitStatus.VOLUME  # its folder is there already, and can be written
    assert statuses == [expected] * 2, ranks.output
    assert what == "runs" or "Permission denied; the volume has to be mounted" in ranks.output[1]
    assert what == "runs" or "Train Epoch" not in ranks.output[0]


# The kernel's answers of a full disk, for files on the volume from the given call on.
FULL = """
import errno, os, pathlib
from trainer import __main__, train
open_file, calls = pathlib.Path.open, []
def full(self, mode="r", *rest, **more):
    if "runs" in self.parts and self.name.strip(".").startswith({name!r}) and mode != "r":
        calls.append(self)
        if len(calls) > {calls}:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))
    return open_file(self, mode, *rest, **more)
pathlib.Path.open = full
if {name!r} == "space":
    def allocate(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.posix_fallocate = allocate
__main__.run()
"""


def test_a_full_disk_is_refused_before_training(job: Job) -> None:
    ranks = job.start(world=2, script=FULL.format(name="space", calls=0))
    assert ranks.wait() == [ExitStatus.VOLUME] * 2
    assert "No space left on device" in ranks.output[0]
    assert "Train Epoch" not in ranks.output[0]
    assert list(job.folder().iterdir()) == []


@pytest.mark.parametrize(
    "name",
    ["checkpoint.pt", "metrics.jsonl", "mnist_cnn.pt", "mnist_cnn.best.pt", "report.html", "config.json"],
)
def test_a_disk_that_fills_later_fails_the_run(job: Job, name: str) -> None:
    calls = 2 if name == "metrics.jsonl" else 0
    ranks = job.start("--epochs", "2", "--timeout", "30", script=FULL.format(name=name, calls=calls))
    assert ranks.wait() == [ExitStatus.VOLUME]
    assert "No space left on device; the volume has to be mounted, with free space" in ranks.output[0]
    assert not (job.folder() / "mnist_cnn.pt").exists(), "the run does not count as finished"


def test_no_restart_mends_a_volume() -> None:
    assert 0 < ExitStatus.VOLUME < 128, "the operator's policy ExitCode restarts from 128 on"

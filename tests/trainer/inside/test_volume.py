"""What lands on the volume: whole files only; and a volume that cannot take them is refused before training."""

import errno
import os
import shutil
import signal
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO

import pytest
import torch

from tests.inside.conftest import Job
from trainer import checkpoint, train, volume
from trainer.launch import ExitStatus
from trainer.volume import VolumeError

OPTIONS = (
    "--data",
    "tests.inside.own:tiny",
    "--global-batch-size",
    "16",
    "--network",
    "fast",
    "--epochs",
    "2",
)


def test_a_write_replaces_the_whole_file_and_leaves_no_other(tmp_path: Path) -> None:
    path = tmp_path / "file"
    volume.write(path, b"old")
    reader = path.open("rb")
    volume.write(path, b"new")
    assert reader.read() == b"old", "who has the old file open still reads it whole"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_whatever_keeps_a_file_from_being_written_nothing_is_left(tmp_path: Path) -> None:
    def half(file: IO[bytes]) -> None:
        file.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        volume.write(tmp_path / "file", half)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("umask", [0o022, 0o077], ids=oct)
def test_another_user_of_the_group_may_write_whatever_a_run_leaves(job: Job, umask: int) -> None:
    """The group of the volume's folder comes with its setgid bit."""
    job.volume.chmod(0o2775)
    script = f"import os; os.umask({umask}); from trainer.__main__ import run; run()"
    assert job.start(*OPTIONS, script=script).wait() == [0]
    made = {path: path.stat().st_mode for path in job.volume.rglob("*")}
    assert job.folder() / volume.MODEL in made
    closed = [
        f"{stat.filemode(mode)} {path}"
        for path, mode in made.items()
        if mode & stat.S_IRGRP == 0 or mode & stat.S_IWGRP == 0 or (path.is_dir() and not mode & stat.S_ISGID)
    ]
    assert closed == []


@pytest.mark.parametrize("elements", [100, 4_000_000])
def test_a_volume_that_fills_while_tensors_are_written_is_named(elements: int) -> None:
    """torch tells its own error of the write after the one that failed."""
    small = Path("/volumes/small") / "tensors"
    small.mkdir(exist_ok=True)
    state = {"first": torch.zeros(elements), **{str(number): torch.zeros(400_000) for number in range(8)}}
    with pytest.raises(VolumeError, match=r"model\.pt: No space left on device"):
        volume.write(small / "model.pt", partial(checkpoint.write, state=state))
    assert list(small.iterdir()) == []
    small.rmdir()


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


def mounted(name: str) -> Path:
    """A file system that run_in_image.sh mounts for these tests."""
    path = Path("/volumes", name)
    assert os.path.ismount(path), f"{path} is not mounted, see run_in_image.sh"
    return path


# A mount on the image's own directory, which nobody has named.
UNNAMED = """
import os, pathlib
from trainer import __main__, options
options.MODEL_DIR = pathlib.Path(os.environ["PLACE"])
__main__.run()
"""


@pytest.mark.sampled(5)
@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize("named", [True, False], ids=["named", "unnamed"])
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("full", "No space left on device"),
        ("read-only", "Read-only file system"),
        ("foreign", "Permission denied"),
        ("closed", "Permission denied"),
    ],
)
def test_a_file_system_that_cannot_take_the_run_is_refused_before_training(
    job: Job, name: str, reason: str, named: bool, world: int
) -> None:
    place = str(mounted(name))
    script, named_place = (None, place) if named else (UNNAMED, "")
    ranks = job.start(world=world, script=script, TRAINER_MODEL_DIR=named_place, PLACE=place)
    assert ranks.wait() == [ExitStatus.VOLUME] * world, ranks.output
    assert all(f"{reason}; the volume has to be mounted" in output for output in ranks.output)
    assert "Train Epoch" not in ranks.output[0]
    assert name != "full" or not list(Path(place, "runs", "run").iterdir()), "nothing is left behind"


# Fills the file system to the last byte when the file is opened for the given time.
FILLING = """
import pathlib
from contextlib import suppress
from trainer import __main__, train
open_file, opened = pathlib.Path.open, []
def filling(self, mode="r", *rest, **more):
    if "runs" in self.parts and self.name.strip(".").startswith({name!r}) and mode != "r":
        opened.append(self)
        if len(opened) == {time}:
            with suppress(OSError), open_file(pathlib.Path({filler!r}), "wb", buffering=0) as filler:
                while filler.write(bytes(512)):
                    pass
    return open_file(self, mode, *rest, **more)
pathlib.Path.open = filling
__main__.run()
"""


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Job]:
    """A job whose volume has a few MiB."""
    volume = mounted("small")
    yield Job(volume, logs=tmp_path)
    for path in volume.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "time"),
    [
        ("space", 1),
        ("config.json", 1),
        ("metrics.jsonl", 1),
        ("metrics.jsonl", 4),
        ("events.out", 1),
        ("checkpoint.pt", 1),
        ("checkpoint.pt", 2),
        ("mnist_cnn.best.pt", 1),
        ("report.html", 1),
        ("mnist_cnn.pt", 1),
    ],
)
def test_a_disk_that_fills_fails_the_run_which_goes_on_with_room(
    small: Job, undisturbed: bytes, name: str, time: int
) -> None:
    filler = small.volume / "filler"
    script = FILLING.format(name=name, time=time, filler=str(filler))
    ranks = small.start(*OPTIONS, world=2, script=script)
    assert ranks.wait() == [ExitStatus.VOLUME, ExitStatus.VOLUME if name == "space" else ExitStatus.PEER_LOST]
    assert "No space left on device; the volume has to be mounted, with free space" in ranks.output[0]
    assert filler.exists()
    assert not (small.folder() / "mnist_cnn.pt").exists(), "the run does not count as finished"
    kept = (small.folder() / checkpoint.NAME).exists()
    filler.unlink()
    output = small.train(*OPTIONS, world=2)
    assert ("resumed at epoch " in output) == kept
    assert small.model() == undisturbed


# Dies at the beginning of epoch DIES, with all that the one before has written.
BEGINNING = """
import os, signal
from trainer import __main__, train
epoch = train.Training.epoch
def dying(self):
    if self.progress.epoch == int(os.environ["DIES"]):
        self.writer.wait()
        os.kill(os.getpid(), signal.SIGKILL)
    epoch(self)
train.Training.epoch = dying
__main__.run()
"""
MARGIN = 1 << 16  # the file system gives whole pages
WRITTEN = (checkpoint.NAME, checkpoint.PREVIOUS, volume.BEST, volume.MODEL)


def fill(place: Path, free: int) -> Path:
    """A file that leaves so many bytes of the file system."""
    now = os.statvfs(place)
    filler = place / "filler"
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, now.f_bavail * now.f_frsize - free)
    return filler


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("optimizer", "dies"),
    [  # torch's optimizers have no state before their first step, so that their first start asks for less
        *(("sgd", epoch) for epoch in (1, 2, 3, 4)),
        *(("AdamW", epoch) for epoch in (2, 3, 4)),
    ],
)
def test_what_an_earlier_start_has_written_needs_no_room_again(small: Job, optimizer: str, dies: int) -> None:
    """Room for what is missing, and for one checkpoint and one model beside those that they replace."""
    options = (*OPTIONS, "--epochs", "3", "--optimizer", optimizer)
    small.train(*options, run="whole")
    sizes = {name: (small.folder("whole") / name).stat().st_size for name in WRITTEN}
    started = small.start(*options, script=BEGINNING, DIES=str(dies))
    assert started.wait() == [-signal.SIGKILL if dies <= 3 else 0], started.output
    missing = [size for name, size in sizes.items() if not (small.folder() / name).exists()]
    assert len(missing) == {1: 4, 2: 2, 3: 1, 4: 0}[dies]
    needed = sum(missing) + sizes[checkpoint.NAME] + sizes[volume.MODEL] + train.SLACK_BYTES
    filler = fill(small.volume, needed - sizes[checkpoint.NAME])
    ranks = small.start(*options)
    assert ranks.wait() == [ExitStatus.VOLUME], ranks.output
    assert "No space left on device; the volume has to be mounted" in ranks.output[0]
    filler.unlink()
    fill(small.volume, needed + MARGIN)
    small.train(*options)
    assert small.model() == small.model("whole")


# Dies as soon as the file is written, before it has its name.
DYING = """
import os, pathlib, signal
from trainer import __main__, train, volume
part = volume.part
def die(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)
def named(path):
    if path.name.strip(".").startswith({name!r}):
        os.fsync = os.posix_fallocate = die
    return part(path)
volume.part = named
__main__.run()
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "name", ["space", "config.json", "checkpoint.pt", "mnist_cnn.best.pt", "report.html"]
)
def test_what_a_killed_start_has_half_written_goes_with_the_next(
    job: Job, undisturbed: bytes, name: str
) -> None:
    """Else each start would leave its own: under torchrun processes have other numbers each time."""
    ranks = job.start(*OPTIONS, script=DYING.format(name=name), world=2)
    assert ranks.wait() == [-signal.SIGKILL, ExitStatus.PEER_LOST]
    assert [path for path in job.folder().iterdir() if path.name.startswith(".")], "something was left"
    job.train(*OPTIONS, world=2)
    assert [path for path in job.folder().iterdir() if path.name.startswith(".")] == []
    assert job.model() == undisturbed


# The kernel refuses each link, as on file systems without them: seccomp(2), with a filter as in linux/filter.h.
WITHOUT_LINKS = """
import ctypes, errno, os, platform, struct
LINK = {"x86_64": (86, 265), "aarch64": (37, 37)}[platform.machine()]
load, equal, answer = 0x20, 0x15, 0x06
program = [(load, 0, 0, 0), (equal, 2, 0, LINK[0]), (equal, 1, 0, LINK[1])]
program += [(answer, 0, 0, 0x7FFF0000), (answer, 0, 0, 0x00050000 | errno.EPERM)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
filter = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, filter) == 0, os.strerror(ctypes.get_errno())
open("linked", "w").close()
try:
    os.link("linked", "link")
except PermissionError:
    print("no links", flush=True)
from trainer import __main__
__main__.run()
"""


def test_a_volume_without_hard_links_is_one_like_any_other(job: Job, undisturbed: bytes) -> None:
    ranks = job.start(*OPTIONS, world=2, script=WITHOUT_LINKS)
    assert ranks.wait() == [0, 0], ranks.output
    assert all(output.startswith("no links\n") for output in ranks.output)
    assert {checkpoint.NAME, checkpoint.PREVIOUS} <= {path.name for path in job.folder().iterdir()}
    assert job.model() == undisturbed


def test_no_restart_mends_a_volume() -> None:
    assert 0 < ExitStatus.VOLUME < 128, "the operator's policy ExitCode restarts from 128 on"


# An image whose working directory, or a folder below it, cannot be written, and no volume.
ELSEWHERE = """
import os
from pathlib import Path
from trainer import __main__, options
options.MODEL_DIR = Path("/nowhere/models")
os.chdir(os.environ["WORKING"])
__main__.run()
"""


@pytest.mark.parametrize("working", ["/volumes/read-only", "/volumes/foreign", "/volumes/full"])
@pytest.mark.parametrize(
    ("options", "fix"),
    [
        (("--save-model",), "or name another folder with --model-dir"),
        (("--profile",), "or name another folder with --model-dir"),
        (("--model-dir", "out"), "readable and writable for this user"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_working_directory_that_cannot_be_written_is_told_before_training(
    job: Job, options: tuple[str, ...], fix: str, working: str
) -> None:
    ranks = job.start(*OPTIONS, *options, script=ELSEWHERE, TRAINER_MODEL_DIR="", WORKING=working)
    assert ranks.wait() == [ExitStatus.VOLUME], ranks.output
    last = ranks.output[0].splitlines()[-1]
    assert last.startswith("error: ")
    assert working in last or "out" in last
    assert last.endswith(fix)
    assert "Train Epoch" not in ranks.output[0]


def test_a_model_that_will_not_be_saved_is_told_before_training(job: Job) -> None:
    ranks = job.start(*OPTIONS, script=ELSEWHERE, TRAINER_MODEL_DIR="", WORKING="/tmp")
    assert ranks.wait() == [0]
    assert ranks.output[0].index("the model is not saved") < ranks.output[0].index("Train Epoch")


def test_a_folder_for_events_that_cannot_be_written_is_told(job: Job) -> None:
    ranks = job.start(*OPTIONS, "--dir", "/volumes/read-only/logs")
    assert ranks.wait() == [0]
    told = f"--dir /volumes/read-only/logs cannot be written: the events go into {job.folder()}"
    assert told in ranks.output[0]
    assert list(job.folder().glob("events.*"))

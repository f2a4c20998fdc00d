"""Checkpoints: damage is noticed and passed over; nothing else counts as damage."""

import errno
import io
import os
import struct
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.inside.conftest import Job
from tests.inside.test_agreement import DIFFERENT
from trainer import checkpoint, options, volume
from trainer.checkpoint import CheckpointError, Progress
from trainer.launch import ExitStatus
from trainer.volume import VolumeError

CONFIG = {"network": "lenet", "seed": 1}
DATA = {"train_data": "96 0", "test_data": "32 1"}
# Replicas have to share these, but not a run that goes on: more epochs may follow, elsewhere, tested otherwise.
NOT_COMPARED = {"epochs", "test_batch_size", "backend", "no_cuda"}


def save(folder: Path, step: int) -> None:
    model = torch.full((1000,), float(step))
    state = {
        "model": model,
        "optimizer": {"state": {0: {"square": model * 2}}},
        "config": CONFIG,
        "data": DATA,
    }
    checkpoint.save(folder, Progress(1, step, step), state)


def test_a_checkpoint_comes_back(tmp_path: Path) -> None:
    assert checkpoint.load(tmp_path, CONFIG, DATA) is None
    save(tmp_path, 1)
    save(tmp_path, 2)
    state = checkpoint.load(tmp_path, CONFIG, DATA)
    assert state
    assert Progress(**state["progress"]) == Progress(1, 2, 2)
    assert torch.equal(state["optimizer"]["state"][0]["square"], torch.full((1000,), 4.0))


class HeldDisk:
    """volume.write, held back until the test lets it go on, or told to fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.proceed = threading.Event(), threading.Event()
        self.error: Exception | None = None
        self.write = volume.write
        monkeypatch.setattr(volume, "write", self)

    def __call__(self, path: Path, content: Any) -> None:
        self.begun.set()
        assert self.proceed.wait(60)
        if self.error:
            raise self.error
        self.write(path, content)


def begin(writer: checkpoint.Writer, folder: Path, step: int) -> torch.Tensor:
    """Begin to write a checkpoint; the tensor that goes on being trained."""
    model = torch.full((1000,), float(step))
    state = {"model": model, "buffers": [model[:5]], "optimizer": {"of": (model,)}, "config": CONFIG}
    state["data"] = DATA
    writer.save(folder, Progress(1, step, step), state)
    return model


def test_a_checkpoint_is_as_the_training_was_when_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, writer = HeldDisk(monkeypatch), checkpoint.Writer()
    model = begin(writer, tmp_path, 1)
    assert disk.begun.wait(60)
    assert writer.busy
    model.fill_(7)
    disk.proceed.set()
    writer.wait()
    assert not writer.busy
    state = checkpoint.load(tmp_path, CONFIG, DATA)
    assert state
    assert state["progress"]["step"] == 1
    for tensor in (state["model"], state["buffers"][0], state["optimizer"]["of"][0]):
        assert torch.equal(tensor, torch.ones_like(tensor))


def test_checkpoints_are_written_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, writer = HeldDisk(monkeypatch), checkpoint.Writer()
    begin(writer, tmp_path, 1)
    assert disk.begun.wait(60)
    second = threading.Thread(target=begin, args=(writer, tmp_path, 2))
    second.start()
    second.join(0.2)
    assert second.is_alive(), "the copy is the first one's as long as that is being written"
    disk.proceed.set()
    second.join()
    writer.wait()
    for name, step in ((checkpoint.NAME, 2), (checkpoint.PREVIOUS, 1)):
        state = torch.load(tmp_path / name, weights_only=True)
        assert state["progress"]["step"] == step
        assert torch.equal(state["model"], torch.full((1000,), float(step)))


def test_a_copy_takes_the_memory_of_the_one_before_where_it_fits() -> None:
    first = checkpoint.copied({"model": torch.ones(5), "of": [torch.ones(2), (torch.ones(3),)], "lr": 1})
    state = {"model": torch.zeros(5), "of": [torch.zeros(4), (torch.zeros(3), torch.zeros(1))], "lr": 2}
    second = checkpoint.copied(state, first)
    assert checkpoint.digest(second) == checkpoint.digest(state)
    assert second["model"] is first["model"]
    assert second["of"][1][0] is first["of"][1][0]
    half = checkpoint.copied({"model": torch.ones(5, dtype=torch.bfloat16)}, second)
    assert half["model"].dtype is torch.bfloat16
    shorter = checkpoint.copied({"of": [torch.ones(4)]}, second)
    assert len(shorter["of"]) == 1


@pytest.mark.parametrize("ask", ["wait", "save"])
def test_what_befell_a_checkpoint_is_told_once(
    ask: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, writer = HeldDisk(monkeypatch), checkpoint.Writer()
    disk.error = VolumeError("disk is full")
    disk.proceed.set()
    begin(writer, tmp_path, 1)
    while writer.busy:
        time.sleep(0.001)
    assert writer.failed
    with pytest.raises(VolumeError, match="disk is full"):
        writer.wait() if ask == "wait" else begin(writer, tmp_path, 2)
    assert not writer.failed
    writer.wait()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("described", [None, {"dataset": "digits"}])
def test_a_file_has_the_bytes_that_memory_would_have(
    described: dict[str, Any] | None, tmp_path: Path
) -> None:
    state = {"model": torch.rand(1000), "of": {"square": torch.rand(10, 10).to(torch.bfloat16)}}
    volume.write(tmp_path / "file", partial(checkpoint.write, state=state, description=described))
    assert (tmp_path / "file").read_bytes() == checkpoint.dump(state, described)
    assert checkpoint.size(state) == len(checkpoint.dump(state))


@pytest.mark.parametrize("damage", ["cut", "flip", "empty"])
def test_a_damaged_checkpoint_is_set_aside_and_the_one_before_used(
    damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path, 1)
    save(tmp_path, 2)
    path = tmp_path / checkpoint.NAME
    raw = bytearray(path.read_bytes())
    if damage == "flip":
        raw[raw.index(struct.pack("<f", 2.0) * 10) + 2] ^= 1
    path.write_bytes({"cut": bytes(raw[: len(raw) // 2]), "flip": bytes(raw), "empty": b""}[damage])
    state = checkpoint.load(tmp_path, CONFIG, DATA)
    assert state
    assert state["progress"]["step"] == 1
    assert f"{path} is damaged" in capsys.readouterr().out
    assert path.with_name("checkpoint.pt.damaged").exists()


@pytest.mark.filterwarnings("ignore")  # torch.load says what it makes of half an archive
@pytest.mark.sampled(2)
@pytest.mark.parametrize("first", range(5))
@pytest.mark.parametrize("damage", ["cut", "flip"])
def test_whatever_is_cut_or_flipped_only_what_was_saved_counts(
    damage: str, first: int, tmp_path: Path
) -> None:
    """Cut after every fifth byte, and a bit flipped in it; a few of them mean nothing in an archive."""

    def save(step: int) -> bytes:
        state = {"model": torch.full((5,), float(step)), "buffers": [torch.ones(1)], "config": CONFIG}
        state["data"] = DATA
        checkpoint.save(tmp_path, Progress(1, step, step), state)
        return (tmp_path / checkpoint.NAME).read_bytes()

    before, raw = save(1), save(2)
    used = []
    for place in range(first, len(raw), 5):
        flipped = raw[:place] + bytes([raw[place] ^ 1 << place % 8]) + raw[place + 1 :]
        (tmp_path / checkpoint.NAME).write_bytes(raw[:place] if damage == "cut" else flipped)
        state = checkpoint.load(tmp_path, CONFIG, DATA)
        assert state, f"byte {place}"
        step = state["progress"]["step"]
        assert torch.equal(state["model"], torch.full((5,), float(step))), f"byte {place}"
        assert state["config"] == CONFIG
        assert (tmp_path / checkpoint.PREVIOUS).read_bytes() == before
        used.append(step)
    assert set(used) <= {1, 2}
    assert used.count(1) > len(used) / 3, "most bytes mean something"


@pytest.mark.parametrize("key", sorted({*options.parse([], {}).outcome(), *DIFFERENT} - NOT_COMPARED))
def test_a_checkpoint_of_another_configuration_is_refused_by_each_key(key: str, tmp_path: Path) -> None:
    then, now = options.parse([], {}).outcome(), options.parse(DIFFERENT[key], {}).outcome()
    checkpoint.save(tmp_path, Progress(), {"model": torch.ones(1), "config": then, "data": DATA})
    with pytest.raises(CheckpointError, match=rf"[(; ]{key}: checkpoint "):
        checkpoint.load(tmp_path, now, DATA)
    assert (tmp_path / checkpoint.NAME).exists()


def test_a_checkpoint_of_another_configuration_is_refused_with_the_keys_that_differ(tmp_path: Path) -> None:
    save(tmp_path, 1)
    with pytest.raises(
        CheckpointError, match=r"network: checkpoint lenet, now fast; seed: checkpoint 1, now 2"
    ):
        checkpoint.load(tmp_path, {"network": "fast", "seed": 2}, DATA)


@pytest.mark.parametrize("reason", [errno.EACCES, errno.EIO, errno.ESTALE, errno.ENOMEM])
def test_what_cannot_be_read_now_is_an_error_and_not_damage(
    reason: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 1)
    save(tmp_path, 2)

    def fail(path: Path) -> bytes:
        raise OSError(reason, os.strerror(reason), str(path))

    monkeypatch.setattr(Path, "read_bytes", fail)
    with pytest.raises(VolumeError, match=os.strerror(reason)):
        checkpoint.load(tmp_path, CONFIG, DATA)
    assert {path.name for path in tmp_path.iterdir()} == {checkpoint.NAME, checkpoint.PREVIOUS}


@pytest.mark.parametrize("unreadable", ["file", "folder"])
def test_a_checkpoint_without_permission_ends_the_job(job: Job, unreadable: str) -> None:
    job.train("--epochs", "2")
    place = job.folder() / checkpoint.NAME if unreadable == "file" else job.folder()
    place.chmod(0o200 if unreadable == "file" else 0o300)
    ranks = job.start("--epochs", "3", world=2)
    statuses = ranks.wait()
    place.chmod(0o700)
    assert statuses == [ExitStatus.VOLUME] * 2
    assert f"{place.name}: Permission denied" in ranks.output[0]
    assert not list(job.folder().glob("*.damaged"))


def test_a_memory_error_is_not_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, 1)

    def fail(*arguments: object, **more: object) -> None:
        raise MemoryError

    monkeypatch.setattr(torch, "load", fail)
    with pytest.raises(MemoryError):
        checkpoint.load(tmp_path, CONFIG, DATA)
    assert (tmp_path / checkpoint.NAME).exists()


def test_a_volume_without_hard_links_keeps_two_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **more: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    for step in (1, 2, 3):
        save(tmp_path, step)
    assert torch.load(tmp_path / checkpoint.NAME)["progress"]["step"] == 3
    assert torch.load(tmp_path / checkpoint.PREVIOUS)["progress"]["step"] == 2


def test_a_crash_between_the_two_renames_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 1)
    replace, count = Path.replace, []

    def dying(path: Path, target: Path) -> Path:
        count.append(target)
        if len(count) == 3:  # the new file's own, then the old one's, then this
            raise KeyboardInterrupt
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", dying)
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path, 2)
    state = checkpoint.load(tmp_path, CONFIG, DATA)
    assert state
    assert state["progress"]["step"] == 1


def test_a_checkpoint_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    save(tmp_path, 1)
    path = tmp_path / checkpoint.NAME
    state = torch.load(io.BytesIO(path.read_bytes()))
    state.pop("sha256")
    state["version"] += 1
    path.write_bytes(checkpoint.dump({**state, "sha256": checkpoint.digest(state)}))
    with pytest.raises(CheckpointError, match=r"written by a newer trainer \(layout 4, this one reads 3\)"):
        checkpoint.load(tmp_path, CONFIG, DATA)
    assert path.exists()


@pytest.mark.parametrize("version", [1, 2])
def test_a_checkpoint_of_an_older_layout_is_refused_and_left_alone(version: int, tmp_path: Path) -> None:
    """Up to layout 2 all parameters were one tensor, by their place. The first layout did not say its version."""
    state = {"progress": {"epoch": 2, "images": 0, "step": 5}, "model": torch.ones(3), "optimizer": {}}
    state |= {"config": CONFIG} | ({"version": version} if version > 1 else {})
    raw = checkpoint.dump({**state, "sha256": checkpoint.digest(state)})
    (tmp_path / checkpoint.NAME).write_bytes(raw)
    with pytest.raises(
        CheckpointError, match=rf"an older trainer \(layout {version}, .*continue with that trainer's image"
    ):
        checkpoint.load(tmp_path, CONFIG, DATA)
    assert (tmp_path / checkpoint.NAME).read_bytes() == raw


@pytest.mark.parametrize("key", DATA)
def test_a_checkpoint_on_other_data_is_refused_with_the_part_that_differs(key: str, tmp_path: Path) -> None:
    save(tmp_path, 1)
    with pytest.raises(CheckpointError, match=rf"another data \({key}: checkpoint {DATA[key]}, now other\)"):
        checkpoint.load(tmp_path, CONFIG, {**DATA, key: "other"})


def test_a_model_s_description_leaves_the_state_dict_as_it_is(tmp_path: Path) -> None:
    state = {"weight": torch.arange(5.0)}
    raw = checkpoint.dump(state, {"dataset": "digits"})
    (path := tmp_path / "model.pt").write_bytes(raw)
    assert torch.equal(torch.load(path, weights_only=True)["weight"], state["weight"])
    assert torch.equal(torch.load(path, weights_only=True, mmap=True)["weight"], state["weight"])
    assert checkpoint.description(raw) == {"dataset": "digits"}
    assert checkpoint.description(checkpoint.dump(state)) == checkpoint.description(b"nonsense") == {}

"""What lands on the volume: whole files only, events that TensorBoard reads, checkpoints that notice damage."""

import json
import os
import struct
from pathlib import Path

import pytest
import torch

from trainer import checkpoint, journal, volume
from trainer.checkpoint import CheckpointError, Progress


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
    first = volume.open_run(tmp_path, None)
    assert first
    assert volume.open_run(tmp_path, None) == first
    (first / volume.MODEL).touch()
    second = volume.open_run(tmp_path, None)
    assert second
    assert second.name == f"{first.name}-2"


def test_a_directory_that_cannot_be_written_is_no_volume(tmp_path: Path) -> None:
    assert volume.open_run(tmp_path / "missing", "run") is None
    if os.getuid():
        tmp_path.chmod(0o500)
        assert volume.open_run(tmp_path, "run") is None


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


def test_an_interrupted_run_drops_the_lines_that_it_writes_again(tmp_path: Path) -> None:
    lines = [{"step": 0, "loss": 2.0}, {"step": 5, "accuracy": 0.5}, {"step": 5, "loss": 1.0}]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (tmp_path / journal.METRICS).write_text(text + '{"step": 7, "lo')
    journal.Journal(tmp_path, None, speaks=True).begin({}, step=5)
    assert journal.read(tmp_path) == lines[:2]


CONFIG = {"network": "lenet", "seed": 1}


def save(folder: Path, step: int) -> None:
    model = torch.full((1000,), float(step))
    checkpoint.save(folder, Progress(1, step, step), model, {"state": {0: {"square": model * 2}}}, CONFIG)


def test_a_checkpoint_comes_back(tmp_path: Path) -> None:
    assert checkpoint.load(tmp_path, CONFIG) is None
    save(tmp_path, 1)
    save(tmp_path, 2)
    state = checkpoint.load(tmp_path, CONFIG)
    assert state
    assert Progress(**state["progress"]) == Progress(1, 2, 2)
    assert torch.equal(state["optimizer"]["state"][0]["square"], torch.full((1000,), 4.0))


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
    state = checkpoint.load(tmp_path, CONFIG)
    assert state
    assert state["progress"]["step"] == 1
    assert f"{path} is damaged" in capsys.readouterr().out
    assert path.with_name("checkpoint.pt.damaged").exists()


def test_a_checkpoint_of_another_configuration_is_refused_with_the_keys_that_differ(tmp_path: Path) -> None:
    save(tmp_path, 1)
    with pytest.raises(
        CheckpointError, match=r"network: checkpoint lenet, now fast; seed: checkpoint 1, now 2"
    ):
        checkpoint.load(tmp_path, {"network": "fast", "seed": 2})

"""What rank 0 writes about a run: log lines, metrics.jsonl, TensorBoard events, config.json, TrainJob status."""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from trainer import trainjob_status, volume
from trainer.evaluation import Metrics

METRICS = "metrics.jsonl"
TRACED = 5_000  # parts in a trace: a thousand steps
CASTAGNOLI = 0x82F63B78  # CRC-32C's polynomial, bits reversed
MASK = 0xA282EAD8  # TFRecord rotates a checksum and adds this, so that it is no plain checksum


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (CASTAGNOLI if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = _table()


def checksum(data: bytes) -> int:
    """TFRecord's masked CRC-32C of `data`."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + MASK) & 0xFFFFFFFF


def record(payload: bytes) -> bytes:
    """`payload` as one record of a TFRecord file: length, its checksum, contents, their checksum."""
    length = struct.pack("<Q", len(payload))
    return length + struct.pack("<I", checksum(length)) + payload + struct.pack("<I", checksum(payload))


def varint(value: int) -> bytes:
    """`value`, at least 0, in protobuf's base-128 encoding."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, content: bytes) -> bytes:
    """The length-delimited field `number` of a protobuf message."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def event(wall_time: float, step: int, scalars: dict[str, float]) -> bytes:
    """TensorBoard's Event message.

    Parameters:
        wall_time: seconds since 1970.
        scalars: tag -> value.
    """
    values = b"".join(
        field(1, field(1, tag.encode()) + b"\x15" + struct.pack("<f", value))
        for tag, value in scalars.items()
    )
    return b"\x09" + struct.pack("<d", wall_time) + b"\x10" + varint(step) + field(5, values)


class EventFile:
    """Appends scalars to a new event file in `folder`."""

    def __init__(self, folder: Path) -> None:
        now = time.time()
        self.path = folder / f"events.out.tfevents.{now:.0f}.{socket.gethostname()}"
        with volume.reported(self.path):
            self.file = self.path.open("ab")
            self.file.write(record(b"\x09" + struct.pack("<d", now) + field(3, b"brain.Event:2")))

    def add(self, step: int, scalars: dict[str, float]) -> None:
        """Append `scalars`, tag -> value, of a step. Raises VolumeError."""
        with volume.reported(self.path):
            self.file.write(record(event(time.time(), step, scalars)))
            self.file.flush()


class Journal:
    """The journal of one run: log lines, metrics, events.

    Without a folder it only prints; ranks other than 0 write nothing. Raises volume.VolumeError.
    """

    def __init__(self, folder: Path | None, log_dir: Path | None, speaks: bool) -> None:
        self.folder, self.log_dir, self.speaks = folder, log_dir, speaks
        self.events: EventFile | None = None
        self.since = time.perf_counter()
        self.before_s = 0.0  # seconds that earlier processes trained
        self.status = trainjob_status.offered(os.environ, self.say) if speaks else None
        self.epochs = 0  # of the run
        self.latest: dict[str, float] = {}  # metric -> its last value

    def begin(self, config: dict[str, Any], step: int, epoch: int) -> None:
        """Begin an event file and write config.json. Remove lines of metrics.jsonl that a resumed run will write again.

        Parameters:
            step: steps that the run has done.
            epoch: the current one; its result is written again, even if all its steps are done.
        """
        self.since, self.epochs = time.perf_counter(), config.get("epochs", 0)
        logs = _writable(self.log_dir)
        if self.speaks and self.log_dir and not logs:
            instead = f"the events go into {self.folder}" if self.folder else "no events are written"
            self.warn(f"--dir {self.log_dir} cannot be written: {instead}")
        if self.speaks and (place := logs or self.folder):
            self.events = EventFile(place)
        if self.folder is None:
            return
        volume.write(self.folder / "config.json", (json.dumps(config, indent=2) + "\n").encode())
        kept = [
            line
            for line in read(self.folder)
            if (line["epoch"] < epoch if "accuracy" in line else line["step"] < step)
        ]
        self.latest = {name: value for line in kept for name, value in line.items()}
        self.before_s = max((line.get("training_s", 0.0) for line in kept), default=0.0)
        volume.write(self.folder / METRICS, "".join(f"{json.dumps(line)}\n" for line in kept).encode())

    def say(self, line: str) -> None:
        """Print a line, on rank 0 only."""
        if self.speaks:
            print(line, flush=True)

    def warn(self, line: str) -> None:
        """Print a warning to standard error, on any rank."""
        print(f"warning: {line}", file=sys.stderr, flush=True)

    def progress(
        self, epoch: int, step: int, done: int, total: int, loss: float, lr: float, images: int
    ) -> None:
        """Report a step's loss, after `done` of the epoch's `total` images; `images` came since the last report."""
        now = time.perf_counter()
        rate, self.since = images / (now - self.since), now
        self.say(f"Train Epoch: {epoch} [{done}/{total} ({round(100 * done / total)}%)]\tloss={loss:.4f}")
        self.record({"step": step, "epoch": epoch, "loss": loss, "images_per_s": rate, "lr": lr})
        self._tell(epoch - 1 + done / total)

    def epoch(self, epoch: int, step: int, metrics: Metrics, training_s: float) -> None:
        """Report an epoch's result on the test images; `training_s` is this process's time, without testing.

        The time of earlier processes for finished epochs is added: the file has the time of the whole run.
        """
        self.say(f"accuracy={metrics.accuracy:.4f}")
        self.say(f"loss={metrics.loss:.4f}")
        whole_s = self.before_s + training_s
        result = {"accuracy": metrics.accuracy, "test_loss": metrics.loss, "training_s": whole_s}
        self.record({"step": step, "epoch": epoch, **result})
        self._tell(epoch)
        self.since = time.perf_counter()

    def record(self, line: dict[str, float]) -> None:
        """Append a line to metrics.jsonl and its values to the event file. Raises VolumeError."""
        self.latest |= line
        if self.folder:
            path = self.folder / METRICS
            with volume.reported(path), path.open("a") as file:
                file.write(json.dumps(line) + "\n")
        if self.events:
            scalars = {name: value for name, value in line.items() if name not in ("step", "epoch")}
            self.events.add(int(line["step"]), scalars)

    def end(self, metrics: Metrics) -> None:
        """Print the result in the line that Katib reads."""
        accuracy, loss = f"{metrics.accuracy:.4f}", f"{metrics.loss:.4f}"
        self.say(
            f"{{metricName: accuracy, metricValue: {accuracy}}};{{metricName: loss, metricValue: {loss}}}"
        )

    def close(self) -> None:
        """Tell Kubeflow Trainer that the run is done, if it asks for reports. Waits 5 seconds at most."""
        if self.status:
            self.status.end(self.latest)

    def _tell(self, epochs: float) -> None:
        """Tell Kubeflow Trainer how many epochs are done."""
        if self.status and self.epochs:
            self.status.tell(epochs / self.epochs, self.latest)


class Profile:
    """Times of the parts of a step, as rank 0 spends them: a table, and a trace for chrome://tracing or Perfetto.

    A step begins with the part FIRST and ends with the part LAST; time between parts is `rest` in the table.
    """

    FIRST, LAST = "data", "optimizer"

    def __init__(self, folder: Path | None) -> None:
        self.path = (folder or Path()) / "trace.json"
        self.events: list[dict[str, object]] = []
        self.seconds: dict[str, float] = {}
        self.steps, self.whole, self.begun = 0, 0.0, 0.0

    @contextmanager
    def part(self, name: str, step: int) -> Iterator[None]:
        """Time one part of a step. Wait for the GPU, so that the GPU's work counts for the part that began it."""
        began = time.perf_counter()
        yield
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        took = time.perf_counter() - began
        self.seconds[name] = self.seconds.get(name, 0.0) + took
        if name == self.FIRST:
            self.begun = began
        if name == self.LAST:
            self.steps, self.whole = self.steps + 1, self.whole + began + took - self.begun
        if len(self.events) < TRACED:
            times = {"ts": began * 1e6, "dur": took * 1e6}  # the format counts in microseconds
            self.events.append({"name": name, "ph": "X", "pid": 0, "tid": 0, **times, "args": {"step": step}})

    def end(self) -> str:
        """Write the trace; returns the table. Raises volume.VolumeError."""
        volume.write(self.path, json.dumps({"traceEvents": self.events}).encode())
        rest = max(self.whole - sum(self.seconds.values()), 0.0)
        times = {**self.seconds, "rest": rest}
        whole, steps = sum(times.values()) or 1.0, max(self.steps, 1)
        rows = [
            f"{name:<10}{1000 * seconds / steps:>9.3f} ms {seconds / whole:>6.1%}"
            for name, seconds in {**times, "step": whole}.items()
        ]
        return "\n".join([f"{'part':<10}{'a step':>12} {'of it':>6}", *rows, f"trace: {self.path}"])


def read(folder: Path) -> list[dict[str, float]]:
    """Lines of metrics.jsonl up to the first that a crash damaged or filled with zeros. Raises VolumeError."""
    path = folder / METRICS
    try:
        with volume.reported(path):
            lines = path.read_bytes().split(b"\n")
    except volume.VolumeError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return []
        raise
    whole = []
    for line in lines[:-1]:
        try:
            found = json.loads(line)
        except ValueError:
            break
        if not isinstance(found, dict) or "step" not in found:
            break
        whole.append(found)
    return whole


def _writable(folder: Path | None) -> Path | None:
    if folder is None:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".trainer").touch()
        (folder / ".trainer").unlink()
    except OSError:
        return None
    return folder

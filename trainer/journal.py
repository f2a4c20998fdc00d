"""What rank 0 tells: log lines, metrics.jsonl, TensorBoard events, config.json and report.html."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from trainer import report, volume
from trainer.evaluation import Metrics
from trainer.events import EventFile

METRICS = "metrics.jsonl"


class Journal:
    """Of one run. Without a folder it only prints; a rank that does not lead says nothing at all."""

    def __init__(self, folder: Path | None, log_dir: Path | None, speaks: bool) -> None:
        self.folder, self.speaks = folder, speaks
        self.events: EventFile | None = None
        if speaks and (place := _writable(log_dir) or folder):
            self.events = EventFile(place)
        self.since = time.perf_counter()
        self.images = 0

    def begin(self, config: dict[str, Any], step: int) -> None:
        """Write config.json; of an interrupted run, drop the lines that will be written again."""
        self.since = time.perf_counter()
        if self.folder is None:
            return
        volume.write(self.folder / "config.json", (json.dumps(config, indent=2) + "\n").encode())
        kept = [
            line
            for line in read(self.folder)
            if line["step"] < step or ("accuracy" in line and line["step"] <= step)
        ]
        volume.write(self.folder / METRICS, "".join(f"{json.dumps(line)}\n" for line in kept).encode())

    def say(self, line: str) -> None:
        if self.speaks:
            print(line, flush=True)

    def progress(
        self, epoch: int, step: int, done: int, total: int, loss: float, lr: float, images: int
    ) -> None:
        """A step's loss. `done` of the epoch's `total` images came before it; `images` since the last such line."""
        now = time.perf_counter()
        rate, self.since = images / (now - self.since), now
        self.say(f"Train Epoch: {epoch} [{done}/{total} ({round(100 * done / total)}%)]\tloss={loss:.4f}")
        self.record({"step": step, "epoch": epoch, "loss": loss, "images_per_s": rate, "lr": lr})

    def epoch(self, epoch: int, step: int, metrics: Metrics, training_s: float) -> None:
        """An epoch's result on the test images; `training_s` is this process's time in training, without testing."""
        self.say(f"accuracy={metrics.accuracy:.4f}")
        self.say(f"loss={metrics.loss:.4f}")
        result = {"accuracy": metrics.accuracy, "test_loss": metrics.loss, "training_s": training_s}
        self.record({"step": step, "epoch": epoch, **result})
        self.since = time.perf_counter()

    def record(self, line: dict[str, float]) -> None:
        if self.folder:
            with (self.folder / METRICS).open("a") as file:
                file.write(json.dumps(line) + "\n")
        if self.events:
            scalars = {name: value for name, value in line.items() if name not in ("step", "epoch")}
            self.events.add(int(line["step"]), scalars)

    def end(self, config: dict[str, Any], metrics: Metrics) -> None:
        """Katib's line, and the report."""
        if self.folder:
            page = report.page(self.folder.name, config, read(self.folder))
            volume.write(self.folder / "report.html", page.encode())
        accuracy, loss = f"{metrics.accuracy:.4f}", f"{metrics.loss:.4f}"
        self.say(
            f"{{metricName: accuracy, metricValue: {accuracy}}};{{metricName: loss, metricValue: {loss}}}"
        )


def read(folder: Path) -> list[dict[str, float]]:
    """Lines of metrics.jsonl; a last line cut short by a kill is left out."""
    try:
        lines = (folder / METRICS).read_text().splitlines()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines if line.endswith("}")]


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

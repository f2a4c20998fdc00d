"""Reads a finished run's metrics, from the pod's log or from the run's own file on the volume."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from infra import agreed, paths
from infra.dynamic import Props
from infra.objects.retry import Patience, UnreachableError
from infra.process import CommandError
from infra.run.log_follower import LogFollower
from infra.run.metrics import journal_metrics, metrics, printed_metrics
from infra.run.reader_pod import MountedClaim, ReadError, read_first, running

METRICS, CONFIG = "metrics.jsonl", "config.json"


def metrics_of(follower: LogFollower, props: Props, show: Callable[[str], None]) -> dict[str, float | None]:
    """Accuracy and loss of the run described by `props`; each is None if the program did not print it.

    The log is deleted with its pod, for example by `cleanPodPolicy: All`; the files stay as long as the volume. A job
    that takes a finished run prints no metrics.
    """
    found = metrics(follower.finish())
    if not found:
        kept = _kept(props, show)
        found = printed_metrics(kept) if '"at"' in kept else journal_metrics(kept)
    found = found or metrics(follower.latest)
    return {"accuracy": found.get("accuracy"), "loss": found.get("loss")}


def run_folder(props: Props) -> Path | None:
    """The folder of the run described by `props`; None if the folder is not on this machine."""
    models = props.get("models")
    return paths.resolved(models) / "runs" / props["run"] if models else None


def record_folder(props: Props) -> Path | None:
    """This machine's folder for the record of the run described by `props`, also for a remote volume."""
    models = props.get("models") or props.get("copies")
    return paths.resolved(models) / "runs" / props["run"] if models else None


def epochs_of(folder: Path | None) -> int | None:
    """The number of epochs of the run in this folder; None if unknown."""
    count = agreed.mapping(folder / CONFIG).get("epochs") if folder else None
    return int(count) if count else None


def _kept(props: Props, show: Callable[[str], None]) -> str:
    """The run's metrics.jsonl, else printed.jsonl of its record; empty if there is neither."""
    names = (METRICS, agreed.PRINTED)
    if folder := run_folder(props):
        there = [folder / name for name in names if (folder / name).exists()]
        return there[0].read_text(errors="replace") if there else ""
    if not props.get("claim"):
        return ""
    with tempfile.TemporaryFile() as file:
        try:
            files = [f"{props['mountPath']}/runs/{props['run']}/{name}" for name in names]
            patience = Patience(show)
            with running(MountedClaim.from_props(props), patience) as inside:
                read_first(inside, files, file, patience)
        except (ReadError, CommandError, UnreachableError) as error:
            show(
                f"{props['job']}: its log has no metrics, and no metrics can be read from the volume: {error}"
            )
            return ""
        file.seek(0)
        return file.read().decode(errors="replace")

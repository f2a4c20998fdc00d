"""`make status ARGS=--metrics`: the stack and its last runs in Prometheus' text format.

The text is for the textfile collector of node_exporter, or for any web server from which Prometheus reads a file. Names
and units follow https://prometheus.io/docs/practices/naming/. An unknown value has no sample.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from infra.atomic_file import write_whole
from toolchain.operating import status, volume_space
from toolchain.operating.status import Finding, Health, Part
from toolchain.runs import records
from toolchain.runs.records import Run
from toolchain.steps import SetupError

STANDARD_OUTPUT = "-"
STATES = ("none", "created", "running", "restarting", "suspended", "succeeded", "failed")
"""A job's last condition in small letters; `none` before the first."""

Labels = Mapping[str, str]


@dataclass
class Family:
    """The samples of one gauge.

    Parameters:
        name: the name, with the unit at its end.
        text: its description, one line.
    """

    name: str
    text: str
    samples: list[tuple[Labels, float]] = field(default_factory=list)

    def add(self, value: float | None, **labels: str) -> None:
        """Add a sample; an unknown value, None, adds nothing."""
        if value is not None:
            self.samples.append((labels, value))

    def lines(self) -> list[str]:
        if not self.samples:
            return []
        shown = [f"{self.name}{_labels(labels)} {value!r}" for labels, value in self.samples]
        return [f"# HELP {self.name} {self.text}", f"# TYPE {self.name} gauge", *shown]


def text(stack: str, findings: Sequence[Finding]) -> str:
    """The current metrics of `stack`, a line for each sample."""
    now = Family("trainstack_status_timestamp_seconds", "When the stack was checked, in seconds since 1970.")
    now.add(time.time(), stack=stack)
    runs = [run for run in records.all_runs() if run.stack == stack and not run.is_trial]
    families = [now, *parts(stack, findings), *jobs(stack, findings), *volume(stack), *trainings(stack, runs)]
    return "".join(f"{line}\n" for family in families for line in family.lines())


def write(stack: str, file: str) -> int:
    """Write the metrics of `stack` to `file`, whole or not at all; "-" is standard output. Returns the health.

    Raises SetupError if the file cannot be written.
    """
    findings = status.look_at(stack)
    told = text(stack, findings)
    if file == STANDARD_OUTPUT:
        print(told, end="")
    else:
        try:
            write_whole(Path(file), told)
        except OSError as error:
            raise SetupError(
                f"{file} cannot be written: {error.strerror}", "name a file in a folder that you may write to"
            ) from None
    return status.overall(findings)


def parts(stack: str, findings: Sequence[Finding]) -> list[Family]:
    """Each part once, with its worst finding. Events are not parts: they come and go."""
    up = Family("trainstack_part_up", "Whether a part of the stack is healthy; no sample if that is unknown.")
    unknown = Family("trainstack_part_unknown", "Whether the health of a part of the stack is unknown.")
    for part in dict.fromkeys(each.what for each in findings if each.what is not Part.EVENT):
        health = status.overall(each for each in findings if each.what is part)
        label = part.lower().replace(" ", "_")
        unknown.add(float(health is Health.UNKNOWN), stack=stack, part=label)
        if health is not Health.UNKNOWN:
            up.add(float(health is Health.HEALTHY), stack=stack, part=label)
    return [up, unknown]


def jobs(stack: str, findings: Iterable[Finding]) -> list[Family]:
    """The state of each job, and the number of its failed replicas; a TrainJob has no such number."""
    state = Family("trainstack_job_state", "1 for the state that a job is in, 0 for its other states.")
    created = Family(
        "trainstack_job_created_timestamp_seconds", "When a job was created, in seconds since 1970."
    )
    failed = Family(
        "trainstack_job_failed_replicas", "Pods of a PyTorchJob that have failed, by kind of replica."
    )
    for each in (found.about for found in findings if found.what is Part.JOB and found.about):
        metadata, told = each["metadata"], each.get("status") or {}
        labels = {"stack": stack, "namespace": str(metadata.get("namespace", "")), "job": metadata["name"]}
        held = [name.lower() for name in status.job_conditions(each)]
        now = next((name for name in reversed(held) if name in STATES), STATES[0])
        for name in STATES:
            state.add(float(name == now), **labels, state=name)
        created.add(records.seconds_of(metadata.get("creationTimestamp")), **labels)
        for replica, counts in (told.get("replicaStatuses") or {}).items():
            failed.add(float(counts.get("failed") or 0), **labels, replica=replica.lower())
    return [state, created, failed]


def volume(stack: str) -> list[Family]:
    """Size and free space of the volume, if it is a folder on this machine."""
    size = Family("trainstack_volume_size_bytes", "Size of the file system that holds the volume.")
    free = Family(
        "trainstack_volume_free_bytes",
        "Free space for users other than root, on the file system that holds the volume.",
    )
    if space := volume_space.of(stack):
        size.add(float(space.size), stack=stack)
        free.add(float(space.free), stack=stack)
    return [size, free]


def trainings(stack: str, runs: Sequence[Run]) -> list[Family]:
    """The number of runs, and the progress and result of each job's last run.

    Parameters:
        runs: of the stack, the latest last.
    """
    number = Family(
        "trainstack_runs", "Runs whose folders are on this machine, finished (with a model) or unfinished."
    )
    for state in ("finished", "unfinished"):
        number.add(
            float(sum(run.is_finished is (state == "finished") for run in runs)),
            stack=stack,
            state=state,
        )
    accuracy = Family(
        "trainstack_last_run_accuracy_ratio", "Share of the test images that the model recognizes, 0 to 1."
    )
    loss = Family("trainstack_last_run_loss", "Mean loss of the test images after the last epoch.")
    seconds = Family("trainstack_last_run_duration_seconds", "Training time of the last run.")
    epochs = Family("trainstack_last_run_epochs", "Epochs that the last run has done.")
    finished = Family("trainstack_last_run_finished", "Whether the last run has written its model.")
    written = Family(
        "trainstack_last_run_written_timestamp_seconds",
        "When the last run wrote a file, in seconds since 1970.",
    )
    for job, run in {run.name.rpartition("-")[0] or run.name: run for run in runs}.items():
        labels = {"stack": stack, "job": job, "run": run.name}
        accuracy.add(run.accuracy, **labels)
        loss.add(run.loss, **labels)
        seconds.add(run.seconds, **labels)
        epochs.add(float(run.epochs), **labels)
        finished.add(float(run.is_finished), **labels)
        written.add(run.ended.timestamp(), **labels)
    return [number, accuracy, loss, seconds, epochs, finished, written]


def _labels(labels: Labels) -> str:
    shown = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{shown}}}" if shown else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

"""The names of a job's keys in a PyTorchJob, and in a TrainJob with its TrainingRuntime.

These functions make the `paths` of a job's keys, from which infra.config.counterparts writes docs/trainer-v2.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

POD = "pytorchReplicaSpecs.*.template"
CONTAINER = "spec.containers[0]"
RUNTIME_POD = "TrainingRuntime: template.spec.replicatedJobs[0].template.spec.template"
NEITHER = "-"


@dataclass(frozen=True)
class Counterpart:
    """One key of a job.

    Parameters:
        v1: the paths in the PyTorchJob, with commas between them; below `spec`, except metadata. Empty if the key has
            the same path below `job`.
        v2: the paths in the TrainJob, or with `TrainingRuntime: ` in its runtime; empty if there is none.
        note: what differs.
    """

    v1: str = ""
    v2: str = ""
    note: str = ""


def in_metadata(name: str) -> Counterpart:
    """`labels` or `annotations` of the job and its pods."""
    own = f"metadata.{name}"
    return Counterpart(f"{own}, {POD}.{own}", f"{own}, TrainingRuntime: {own}, {RUNTIME_POD}.{own}")


def in_pod(*paths: str, note: str = "") -> Counterpart:
    """Paths within the pod template; without paths, the whole template. `note`: what differs."""
    return Counterpart(_below(POD, paths), _below(RUNTIME_POD, paths), note)


def in_container(*paths: str) -> Counterpart:
    """Paths within the container."""
    return in_pod(*(f"{CONTAINER}.{path}" for path in paths))


def in_command(*names: str) -> Counterpart:
    """`command` or `args` of the container, which are fields of a TrainJob itself."""
    return Counterpart(_below(f"{POD}.{CONTAINER}", names), _below("trainer", names))


def in_run(note: str) -> Counterpart:
    """The labels and variables with the run's id. `note`: what differs."""
    return Counterpart(
        f"metadata.labels, {POD}.metadata.labels, {POD}.{CONTAINER}.env",
        "metadata.labels, trainer.env, TrainingRuntime: metadata.labels, "
        f"{RUNTIME_POD}.metadata.labels, {RUNTIME_POD}.{CONTAINER}.env",
        note,
    )


def only_v1(note: str) -> Counterpart:
    """The same path in the PyTorchJob, and none in the TrainJob. `note`: why."""
    return Counterpart(note=note)


def outside(note: str) -> Counterpart:
    """Neither in the PyTorchJob nor in the TrainJob. `note`: where it is instead."""
    return Counterpart(NEITHER, NEITHER, note)


def _below(outer: str, paths: Iterable[str]) -> str:
    return ", ".join(f"{outer}.{path}" for path in paths) or outer

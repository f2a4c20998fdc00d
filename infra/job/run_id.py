"""The id of a run: the same for the same training, wherever and however it is applied."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from infra.config.job import JobConfig
from infra.config.variables import SecretKey, Value
from infra.job.context import JobContext
from infra.job.pod import command_line

DIGITS = 8


def inputs(job: JobConfig, context: JobContext) -> dict[str, Any]:
    """What a run's result depends on, as JSON data: image, data, command with its options, number of processes.

    Left out is what a run may go on with: the image's name and registry, resources, deadlines, where the pods run,
    names of the models' volume, paths of mounts. Of data/, `dataset` says what is in it.
    """
    command, args = command_line(job, context.dataset)
    return {
        "image": context.image_inputs,
        "dataset": context.dataset.value if context.dataset else None,
        "command": command,
        "args": args,
        "env": {name: _identity(value) for name, value in job.env.items()},
        **({"envFrom": _sources(job)} if job.env_from else {}),
        "replicas": {"master": job.replicas.master, "worker": job.replicas.worker},
        "processes": job.nproc_per_node,
        **({"rerun": job.rerun} if job.rerun else {}),
        **({"data": sources} if (sources := data(job)) else {}),
        **({"pod": own} if (own := programs(job)) else {}),
    }


def data(job: JobConfig) -> list[dict[str, Any]]:
    """Where the job's data are, but what is in data/ of the clone: the data set says that."""
    return [each.source for each in job.data or () if not each.is_usual]


PROGRAM = ("name", "image", "command", "args", "env", "envFrom", "workingDir")
"""Fields of a container that say what runs in it."""


def programs(job: JobConfig) -> dict[str, list[dict[str, Any]]]:
    """What `pod` runs before and beside the trainer, or changes of it. NCCL's own variables change no result."""
    found: dict[str, list[dict[str, Any]]] = {}
    for kind in ("initContainers", "containers"):
        for each in job.pod_spec.get(kind) or []:
            program = {name: each[name] for name in PROGRAM if name in each}
            if env := [entry for entry in program.pop("env", []) if not entry["name"].startswith("NCCL_")]:
                program["env"] = env
            if program.keys() > {"name"}:
                found.setdefault(kind, []).append(program)
    return found


def _identity(value: Value) -> Any:
    """What a variable says. A secret counts by its place: an id that depends on its text would tell of it."""
    if isinstance(value, SecretKey):
        return {"secret": value.secret, "key": value.key}
    return value if isinstance(value, str) else {"encrypted": True}


def _sources(job: JobConfig) -> list[dict[str, Any]]:
    return [each.manifest() for each in job.env_from]


def run_id(job: JobConfig, context: JobContext) -> str:
    """`<job's name>-<8 hex digits of its inputs>`: a folder below runs/ on the volume, and a label.

    Where the stack file names a finished run, that one.
    """
    if job.run_id:
        return job.run_id
    text = json.dumps(inputs(job, context), sort_keys=True, separators=(",", ":"))
    return f"{job.name}-{hashlib.sha256(text.encode()).hexdigest()[:DIGITS]}"

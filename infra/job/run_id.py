"""The id of a run: the same training has the same id in every cluster, and with every tool that applies the job."""

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
    """The inputs of a run's result, as JSON data: image, data, command with its options, number of processes.

    Settings that may change during a run are not included: the image's name and registry, resources, deadlines, nodes,
    names of the models' volume, paths of mounts. `dataset` names the content of the clone's folder data/.
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
    """The places of the job's data, except data/ of the clone: the data set names its content."""
    return [each.source for each in job.data or () if not each.is_usual]


PROGRAM = ("name", "image", "command", "args", "env", "envFrom", "workingDir")
"""Fields of a container that determine its program."""


def programs(job: JobConfig) -> dict[str, list[dict[str, Any]]]:
    """What `job.pod` adds to the trainer: init containers, sidecars and changed fields, without NCCL's variables."""
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
    """A variable's value, but never the text of a secret: the id would reveal something about that text."""
    if isinstance(value, SecretKey):
        return {"secret": value.secret, "key": value.key}
    return value if isinstance(value, str) else {"encrypted": True}


def _sources(job: JobConfig) -> list[dict[str, Any]]:
    return [each.manifest() for each in job.env_from]


def run_id(job: JobConfig, context: JobContext) -> str:
    """`<job's name>-<8 hex digits of a hash of its inputs>`: a folder below runs/ on the volume, and a label.

    If the stack file names a finished run (`runId`), it is the id of that run.
    """
    if job.run_id:
        return job.run_id
    text = json.dumps(inputs(job, context), sort_keys=True, separators=(",", ":"))
    return f"{job.name}-{hashlib.sha256(text.encode()).hexdigest()[:DIGITS]}"

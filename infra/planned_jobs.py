"""`python -m infra.planned_jobs STACK`: what a plan of more replicas has to know of a stack's jobs, as a JSON list."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from infra import paths
from infra.command_line import errors_as_text
from infra.config import ConfigError, Stack, from_file
from infra.config.cluster import ClusterKind
from infra.config.job import JobConfig
from infra.config.names import quantity
from infra.config.training import Backend
from infra.job.pod import command_line


def planned(stack: Stack, job: JobConfig) -> dict[str, Any]:
    """One job.

    `ranks` counts processes of all replicas. `options` are those of the trainer in its image, with the preset of the
    image; None where the image is not built from ours, so that nobody knows what it does. `here` says whether all
    replicas are on this machine. `cpus` are those of one replica.
    """
    command, args = command_line(job, job.training.dataset)
    words = [*command, *args]
    first = next((place for place, word in enumerate(words) if word.startswith("--")), len(words))
    preset = ["--preset", stack.image.preset.value] if stack.image.preset else []
    ours = not (stack.image.reference or stack.image.is_wholly_own)
    backend = job.training.backend or (Backend.NCCL if job.resources.gpu else Backend.GLOO)
    return {
        "name": job.name,
        "ranks": job.replicas.total * job.nproc_per_node,
        "cpus": float(quantity(job.resources.cpu)) / job.nproc_per_node,
        "gpus": job.resources.gpu,
        "backend": backend.value,
        "here": stack.cluster.kind is not ClusterKind.EXISTING,
        "options": [*preset, *words[first:]] if ours else None,
    }


@errors_as_text(ConfigError)
def main(arguments: list[str], stacks: Path = paths.ROOT / "stacks") -> int:
    """Print the jobs; the exit status."""
    top = argparse.ArgumentParser(prog="python -m infra.planned_jobs", description=__doc__)
    top.add_argument("stack")
    given = top.parse_args(arguments)
    stack = from_file(stacks / f"Pulumi.{given.stack}.yaml")
    print(json.dumps([planned(stack, job) for job in stack.jobs]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

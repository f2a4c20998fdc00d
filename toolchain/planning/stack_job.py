"""A stack's job as its file describes it. The program knows the job, and the trainer what its options come to."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import Any

from toolchain import stack_files
from toolchain.paths import ROOT, VENV
from toolchain.steps import SetupError
from toolchain.tools import venv

# What the trainer makes of its options. trainer/options.py needs nothing but Python.
TRAINER = """
import json, sys
from trainer import options
config = options.parse(sys.argv[1:])
print(json.dumps({
    "network": config.network,
    "batch": config.batch_size or config.settings.global_batch,
    "per_replica": bool(config.batch_size),
    "backend": config.backend,
}))
"""


@dataclass(frozen=True)
class Job:
    """One job of a stack.

    Parameters:
        name: of the job.
        ranks: processes that train together, as the stack file says.
        threads: of each of them.
        gpus: of each replica.
        backend: what gradients are exchanged through.
        here: whether all replicas are on this machine.
        network: that the trainer trains; None where the image has a program that is not ours.
        batch: images of a step, of each rank if `per_replica`, else of all together; None likewise.
    """

    name: str
    ranks: int
    threads: int
    gpus: int
    backend: str
    here: bool
    network: str | None = None
    batch: int | None = None
    per_replica: bool = False


def job(stack: str, name: str) -> Job:
    """The job called `name`, the first of the stack where that is empty. Raises SetupError."""
    stack_files.check(stack)
    venv.ensure()
    jobs = json.loads(venv.output("infra.planned_jobs", stack))
    found = next((each for each in jobs if name in ("", each["name"])), None)
    if found is None:
        raise SetupError(
            f"there is no job {name} in stack {stack}",
            f"use one of: {', '.join(each['name'] for each in jobs)}",
        )
    options = found.pop("options")
    threads = max(1, int(found.pop("cpus")))
    if options is None:
        return Job(**found, threads=threads)
    trained = _trained(options)
    return Job(**(found | trained | {"backend": trained["backend"] or found["backend"]}), threads=threads)


def _trained(options: list[str]) -> dict[str, Any]:
    """What the trainer makes of its options. Raises SetupError."""
    asked = [str(VENV / "bin" / "python"), "-c", TRAINER, *options]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SetupError(done.stderr.strip())
    return dict(json.loads(done.stdout))

"""`make plan`: what more replicas of a stack's job would bring, as a table or JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

from toolchain.planning import fabrics, stack_job
from toolchain.planning.model import HALF, Point, counts, pays_up_to, point
from toolchain.planning.model_inputs import Given, ModelInputs, model_inputs
from toolchain.planning.stack_job import Job
from toolchain.runs import listing
from toolchain.steps import SetupError

# Replicas that are looked at unless the user says otherwise: GPUs, on this machine, and elsewhere.
MOST_GPUS, MOST_HERE, MOST_ELSE = 1000, 16, 64
LIMIT = 100_000
HEAD = ("replicas", "images each", "sent by each", "exchange", "compute", "images/s", "efficiency")


def plan(stack: str, name: str, most: int | None, given: Given, as_json: bool) -> None:
    """Print the plan of one job, up to `most` replicas. Raises SetupError."""
    if most and most > LIMIT:
        raise SetupError(f"--most {most} is more than {LIMIT:,}", f"give at most {LIMIT}")
    job = stack_job.job(stack, name)
    found = model_inputs(stack, job, given)
    usual = MOST_GPUS if job.backend == "nccl" else MOST_HERE if job.here else MOST_ELSE
    highest = found.training.most(most or usual)
    pays = pays_up_to(found.training, found.fabric, highest)
    rows = [point(found.training, found.fabric, each) for each in counts(highest, (job.ranks, pays))]
    others = compared(found, job, highest)
    if as_json:
        print(json.dumps(as_record(stack, job, found, rows, pays, others), indent=2))
        return
    print("\n".join(text(stack, job, found, rows, pays, highest, others)))


def compared(found: ModelInputs, job: Job, most: int) -> dict[str, tuple[int, Point]]:
    """Other fabrics' names -> how many replicas pay over them, and the row of `most`; none for replicas of one node."""
    others: dict[str, tuple[int, Point]] = {}
    if found.training.cores:
        return others
    for name, fabric in fabrics.ALL.items():
        if name != found.fabric.name:
            other = replace(fabric, trees=job.backend == "nccl")
            others[name] = pays_up_to(found.training, other, most), point(found.training, other, most)
    return others


def as_record(
    stack: str,
    job: Job,
    found: ModelInputs,
    rows: list[Point],
    pays: int,
    others: dict[str, tuple[int, Point]],
) -> dict[str, Any]:
    """The plan as JSON has it: seconds, bytes, shares from 0 to 1."""
    return {
        "stack": stack,
        "job": asdict(job),
        "training": asdict(found.training),
        "fabric": asdict(found.fabric),
        "assumptions": list(found.assumptions),
        "points": [asdict(each) for each in rows],
        "pays_up_to": pays,
        "worth": HALF,
        "other_fabrics": {
            name: {"pays_up_to": up_to, "last_point": asdict(last)} for name, (up_to, last) in others.items()
        },
    }


def text(
    stack: str,
    job: Job,
    found: ModelInputs,
    rows: list[Point],
    pays: int,
    most: int,
    others: dict[str, tuple[int, Point]],
) -> list[str]:
    """The plan's lines."""
    batch = f"{found.training.batch} images a step" + (
        " and replica" if found.training.per_replica else ", shared by all replicas"
    )
    lines = [
        f"job {job.name} of stack {stack}: {job.ranks} replicas, {batch}, {job.backend}",
        f"a step exchanges {found.training.size:,} bytes by one all-reduce in float32",
        "",
        *listing.table([HEAD, *(row(each, job.ranks) for each in rows)]),
        "* as the stack file says",
        "",
        f"{pays} {'replica pays' if pays == 1 else 'replicas pay'}: {_bound(found, pays, most)}",
    ]
    for name, (up_to, last) in others.items():
        lines.append(f"by {name}: up to {up_to}; {last.replicas} have an efficiency of {last.efficiency:.0%}")
    return [*lines, "", "assumptions", *(f"- {each}" for each in found.assumptions)]


def _bound(found: ModelInputs, pays: int, most: int) -> str:
    """Why no more replicas pay."""
    if pays < most:
        return "one more adds less than half of its share"
    if not found.training.per_replica and most == found.training.batch:
        return "more would have no image; --batch-size gives each its own"
    return "more were not looked at (--most)"


def row(each: Point, own: int) -> tuple[str, ...]:
    """The cells of one number of replicas, in the order of HEAD; the stack's own number is marked."""
    return (
        f"{each.replicas}{'*' if each.replicas == own else ''}",
        f"{each.images / each.replicas:.4g}",
        f"{each.sent / 1e6:.2f} MB",
        f"{1e3 * each.exchange_s:.3f} ms",
        f"{1e3 * each.compute_s:.3f} ms",
        f"{each.images_per_s:,.0f}",
        f"{each.efficiency:.0%}",
    )

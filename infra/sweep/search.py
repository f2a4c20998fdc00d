"""The search that a stack file describes, as data for `make sweep`."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from typing import Any

from infra import dataset
from infra.config import Stack
from infra.config.errors import key_of, not_allowed
from infra.config.job import JobConfig
from infra.config.matrix_jobs import made_from, template_with
from infra.config.sweep import SweepConfig
from infra.config.sweep_trials import EPOCHS, FOLDER, job_name
from infra.config.training import Dataset
from infra.image.component import rendered_reference
from infra.job import run_id
from infra.job.context import context
from infra.job.pod import epochs
from infra.objects.job_kinds import OF_API

DIGITS = 16


def search_section(stack: Stack) -> SweepConfig:
    """The section `sweep`. Raises ConfigError if the stack has none."""
    if stack.sweep is None:
        fix = "write `trainstack:sweep: {options: {training.lr: [0.01, 0.1]}}`, see docs/sweep.md"
        raise not_allowed(stack.file, key_of(("sweep",)), "(absent)", "a mapping with options", fix)
    return stack.sweep


def search(stack: Stack) -> dict[str, Any]:
    """The search of `stack`, as JSON data.

    `name` is the search's name. `job` is the beginning of its jobs' names, `namespace` their namespace, and `resource`
    their kind for kubectl. `metric` is the key of `objective` in metrics.jsonl. `folder` holds studies and runs on the
    volume. `replaced`: each trial also replaces the values of these keys of the stack file, which are not options of
    the search: key -> the trial's value. `study` is the part for infra/sweep/study.py.

    Raises ConfigError if the stack has no search, or if its volume is not on this machine, and DataError.
    """
    sweep = search_section(stack)
    if not stack.models_are_here:
        kind = f"{stack.cluster.kind.value}, with storage.kind {stack.storage.kind.value}"
        allowed = "`kind` with `storage.kind: hostPath`: a search needs a volume on this machine"
        fix = (
            "run the search with a stack whose volume is on this machine, then copy the best options to this stack: "
            f"make promote FROM=<that stack> TO={stack.name} MIN_ACCURACY=<0 to 1>"
        )
        raise not_allowed(stack.file, key_of(("cluster", "kind")), f"({kind})", allowed, fix)
    return {
        "name": sweep.name,
        "job": job_name(stack.jobs[0].name, sweep, ""),
        "namespace": stack.cluster.namespace,
        "resource": OF_API[stack.operator.api].resource,
        "metric": sweep.objective.metric,
        "objective": sweep.objective.value,
        "folder": FOLDER,
        "replaced": dict.fromkeys(_replaced(sweep) if stack.jobs[0].training.digits_epochs else []),
        "study": study(stack),
    }


def study(stack: Stack) -> dict[str, Any]:
    """The request for infra/sweep/study.py, without the keys that change in each exchange. Raises DataError."""
    sweep = search_section(stack)
    return {
        "identity": identity(stack),
        "direction": sweep.objective.direction,
        "options": {key: asdict(each) for key, each in sweep.space.items()},
        "epochs": _epochs(stack),
        "trials": sweep.trials,
        "parallel": sweep.parallel,
        "prune": sweep.prune,
        "seed": sweep.seed,
    }


def identity(stack: Stack) -> str:
    """A hash of everything that comparable trials have in common: training, image, data, options, objective.

    A search may continue with more trials, more trials at once, and with or without pruning. Raises DataError.
    """
    sweep = search_section(stack)
    common, chosen = _common(stack)
    inputs = run_id.inputs(common, context(stack, rendered_reference(stack), chosen))
    parts = {
        "training": inputs,
        "options": {key: asdict(each) for key, each in sweep.space.items()},
        "objective": sweep.objective.value,
    }
    text = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _common(stack: Stack) -> tuple[JobConfig, Dataset | None]:
    """The job without the options in which its trials differ, and the data set of all trials."""
    sweep = search_section(stack)
    section = template_with(stack.jobs[0], dict.fromkeys([*sweep.options, *_replaced(sweep)]))
    common = made_from(section, stack.file, {}, "sweep")
    return common, dataset.of_jobs(replace(stack, jobs=(common,)))[common.name]


def _epochs(stack: Stack) -> int | str | None:
    """How many epochs a trial has, or the key of the option that says it; None if the trainer decides."""
    if EPOCHS in search_section(stack).options:
        return EPOCHS
    return epochs(*_common(stack))


def ensure_same(stack: Stack, begun: str) -> None:
    """Raises DataError, and ConfigError if the trials of `stack` and of the running search cannot be compared.

    Parameters:
        begun: the identity of the search at its start.
    """
    if identity(stack) != begun:
        allowed = "the options, objective, training, image and data set with which the running search began"
        fix = "undo the edit of stack file, image or data; or end the search (Ctrl-C) and change `sweep.name`"
        raise not_allowed(stack.file, key_of(("sweep",)), "(another search)", allowed, fix)


def _replaced(sweep: SweepConfig) -> list[str]:
    return ["training.digitsEpochs"] if EPOCHS in sweep.options else []

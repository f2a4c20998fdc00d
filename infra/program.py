"""Parts of `__main__`: the configuration, the stack's ownership, its data sets and its outputs."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pulumi

from infra import agreed, dataset
from infra.clusters import addresses
from infra.clusters.cluster import Cluster
from infra.config import Stack, encrypted, from_raw, shell_variables, sweep_trials
from infra.config.errors import not_allowed
from infra.config.load import PREFIX, Sections, ensure_as_written, own, sections, source, with_base
from infra.config.training import Dataset
from infra.image.component import Image
from infra.objects import owner, stack_state
from infra.objects.adoption import Ownership
from infra.objects.kinds import title
from infra.objects.stack_state import StackState
from infra.run import ending, unfollowed
from infra.run.following import JobRun
from infra.stack_plan import Planned
from infra.sweep import search


def stack_config() -> Stack:
    """The stack's validated configuration, from Pulumi. Raises ConfigError and dataset.DataError."""
    config = pulumi.Config()
    # pulumi.Config returns only keys that we name. get_config_env has all keys, unknown ones included.
    names = {*Sections.model_fields, *sections(pulumi.runtime.get_config_env())}
    given = {name: config.get(name) for name in names}
    name = pulumi.get_stack()
    raw = sections({f"{PREFIX}{key}": text for key, text in given.items() if text is not None})
    file = f"stacks/Pulumi.{name}.yaml"
    path = Path(pulumi.get_root_directory()) / file
    written = own(path)
    secret = {key.removeprefix(PREFIX) for key in pulumi.runtime.get_config_secret_keys_env()}
    raw = encrypted.restored(raw, written, secret, file)
    ensure_as_written(raw, written, file)
    stack = from_raw(name, with_base(raw, path), source(path, file))
    shell_variables.ensure_reviewed(stack, pulumi.log.warn)
    return with_trials(stack)


def with_trials(stack: Stack) -> Stack:
    """`stack` with its own jobs, then the jobs of the trials that `make sweep` runs now.

    Raises ConfigError and dataset.DataError.
    """
    file = os.environ.get(agreed.TRIALS)
    under_way = sweep_trials.read(Path(file)) if file else None
    if under_way is None or under_way.stack != stack.name or not under_way.trials:
        return stack
    if stack.protected:
        allowed = f"no value if trainstack:protected is true ({stack.file}), because no review shows trials"
        raise not_allowed("the shell", agreed.TRIALS, file, allowed, f"unset {agreed.TRIALS}")
    sweep_trials.ensure_asked(stack.jobs[0], stack.sweep, stack.file, under_way.job)
    search.ensure_same(stack, under_way.identity)
    (template,), sweep, mount_path = stack.jobs, search.search_section(stack), stack.storage.mount_path
    made = [sweep_trials.job(template, sweep, mount_path, stack.file, each) for each in under_way.trials]
    return replace(stack, jobs=(template, *made), trials=frozenset(each.name for each in made))


def datasets(stack: Stack) -> dict[str, Dataset | None]:
    """Job's name -> the data set that the job trains on if this machine applies it.

    Logs a line for each job for which a review shows another data set. Raises dataset.DataError.
    """
    chosen, reviewed = dataset.of_jobs(stack), dataset.of_review(stack)
    folders = {job.name: dataset.looked_at(stack, job) for job in stack.jobs}
    for name, found in chosen.items():
        if found is not reviewed[name]:
            pulumi.log.info(
                f"{name}: dataset auto is {found} on this machine, because of the files in {folders[name]}; "
                f"a review shows {reviewed[name]}; `python -m infra.review {stack.name} --here` shows {found}"
            )
    return chosen


def ownership(stack: Stack) -> Ownership:
    """Decides which objects are this stack's. Raises OwnerIdError if ADOPT differs from the id in the state."""
    held, given = stack_state.read(), owner.id_to_adopt()
    if given and held.owner and given != held.owner:
        raise owner.OwnerIdError(
            f"ADOPT={given}: the state of stack {stack.name} has another owner id, {held.owner}\n  fix: leave ADOPT out"
        )
    is_own = stack.cluster.kind.has_our_nodes
    return Ownership(held, held.owner or given, own_cluster=is_own, given=given is not None)


def keep_unfollowed(stack: Stack, held: StackState, *, is_there: bool) -> None:
    """Save the logs and results of jobs that nobody followed, before this update may replace them. Not in a preview."""
    if is_there and not pulumi.runtime.is_dry_run():
        unfollowed.keep(stack, held.jobs, pulumi.log.info)


def end_left(stack: Stack, held: StackState, planned: Collection[Planned], *, is_there: bool) -> None:
    """End the jobs that leave the stack, before other jobs start. Not in a preview. Raises ending.NotEndedError."""
    if is_there and not pulumi.runtime.is_dry_run():
        titles = {title(each.manifest) for each in planned}
        left = [each for each in held.jobs if title({"kind": each["kind"], "metadata": each}) not in titles]
        if left and (address := addresses.of_stack(stack)).is_there:
            ending.end_all(address, left, pulumi.log.info)


def export(stack: Stack, cluster: Cluster, image: Image, runs: Mapping[str, JobRun]) -> None:
    """Export the map `jobs`, and flat outputs if the stack has one job. `runs`: job's name -> its run.

    The `modelPath` of a job with `model: null` is null.
    """
    leaves_model = {job.name: job.model is not None for job in stack.jobs}
    jobs = {
        name: {
            "jobStatus": _known(run.status),
            "accuracy": _known(run.accuracy),
            "loss": _known(run.loss),
            "modelPath": _known(run.model_path) if leaves_model[name] else None,
        }
        for name, run in runs.items()
    }
    pulumi.export("kubeconfig", cluster.kubeconfig)
    pulumi.export("namespace", stack.cluster.namespace)
    pulumi.export("imageDigest", image.digest)
    pulumi.export("jobs", jobs)
    if len(runs) == 1:
        name, outputs = next(iter(jobs.items()))
        pulumi.export("jobName", name)
        for key, value in outputs.items():
            pulumi.export(key, value)


def _known(output: pulumi.Output[Any]) -> pulumi.Output[Any]:
    """`output`; None if an update excludes its resource with `--exclude`."""
    return output if pulumi.runtime.is_dry_run() else pulumi.Output.from_input(output.future())

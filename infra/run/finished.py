"""Jobs that are deleted after they finished, by `runPolicy.ttlSecondsAfterFinished`. ADR 32.

The training-operator deletes a PyTorchJob itself. A TrainJob has no such field. The JobSet has one, but Trainer
would create the deleted JobSet of a failed TrainJob again. So `make up` deletes the TrainJob.
Source: removeFailedCondition in pkg/controller/trainjob_controller.go of Trainer 2.2.0 and 2.3.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException

from infra import agreed
from infra.clusters import addresses
from infra.config import Stack
from infra.objects.job_kinds import OF_API, TRAINJOB
from infra.objects.kinds import title
from infra.objects.look import Look
from infra.objects.retry import Patience, UnreachableError, brief
from infra.objects.stack_state import StackState
from infra.run import job_status
from infra.run.job_api import TrainJobApi


def left(stack: Stack, look: Look, held: StackState) -> Mapping[str, Mapping[str, Any]]:
    """Finished jobs that no longer exist: `Kind/namespace/name` -> its run in the state. Raises UnknownError."""
    kind, namespace = OF_API[stack.operator.api], stack.cluster.namespace
    found = {}
    for name in _seconds(stack):
        job = title({"kind": kind.kind, "metadata": {"namespace": namespace, "name": name}})
        if job in held.finished and look.get(kind, name, namespace) is None and look.is_there:
            found[job] = held.finished[job]
    return found


def remove(stack: Stack, runs: Iterable[Mapping[str, Any]], show: Callable[[str], None]) -> None:
    """Delete each TrainJob of `runs` whose time is over. A line names each deleted job, or says why it stays.

    Parameters:
        runs: the runs of jobs that may be deleted, by their properties in the state.
    """
    address, seconds = addresses.of_stack(stack), _seconds(stack)
    for each in runs:
        name, namespace = each["job"], each["namespace"]
        if each.get("kind") != TRAINJOB.kind or name not in seconds or not address.is_there:
            continue
        api = TrainJobApi(address, namespace, name, each["uid"], show, TRAINJOB)
        api.patience = Patience(lambda _: None, 0, starting_s=0)
        try:
            job = api.job()
            if job and _is_due(job, seconds[name]):
                api.delete()
                show(f"{name}: the job finished more than {seconds[name]} s ago, so it was deleted")
        except (ApiException, ConfigException, UnreachableError) as error:
            show(f"{name}: the job finished, but cannot be deleted: {brief(error)}")


def _seconds(stack: Stack) -> dict[str, int]:
    """Job's name -> how many seconds it stays after it finished, for jobs with `ttlSecondsAfterFinished`."""
    policies = {job.name: job.run_policy for job in stack.jobs}
    found = {name: each.ttl_seconds_after_finished for name, each in policies.items()}
    return {name: seconds for name, seconds in found.items() if seconds is not None}


def _is_due(job: Mapping[str, Any], seconds: int) -> bool:
    """Whether `job` succeeded at least `seconds` ago."""
    if job_status.condition(dict(job))[0] != job_status.SUCCEEDED:
        return False
    ended = max(datetime.fromisoformat(each["lastTransitionTime"]) for each in agreed.conditions(job))
    return ended + timedelta(seconds=seconds) <= datetime.now(UTC)

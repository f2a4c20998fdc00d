"""Jobs that leave when they have finished, as `runPolicy.ttlSecondsAfterFinished` asks. ADR 32.

The training-operator deletes a PyTorchJob itself. A TrainJob has no such field, and the JobSet's is none for it: of a
TrainJob that has failed, Trainer would make the JobSet again. So `make up` deletes it.
Source: removeFailedCondition in pkg/controller/trainjob_controller.go of Trainer 2.2.0 and 2.3.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException

from infra.clusters import addresses
from infra.config import Stack
from infra.objects.job_kinds import OF_API, TRAINJOB
from infra.objects.look import Look
from infra.objects.manifest import title
from infra.objects.retry import Patience, UnreachableError, brief
from infra.objects.stack_state import StackState
from infra.run import job_status
from infra.run.job_api import TrainJobApi


def left(stack: Stack, look: Look, held: StackState) -> Mapping[str, Mapping[str, Any]]:
    """`Kind/namespace/name` -> its run as the state has it, of jobs that have finished and are not there any more.

    Raises UnknownError.
    """
    kind, namespace = OF_API[stack.operator.api], stack.cluster.namespace
    found = {}
    for name in _seconds(stack):
        job = title({"kind": kind.kind, "metadata": {"namespace": namespace, "name": name}})
        if job in held.finished and look.get(kind, name, namespace) is None and look.is_there:
            found[job] = held.finished[job]
    return found


def remove(stack: Stack, runs: Iterable[Mapping[str, Any]], show: Callable[[str], None]) -> None:
    """Delete each TrainJob of `runs` whose time has come. A line tells which, or why it stays.

    Parameters:
        runs: of jobs that may have left, by their properties in the state.
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
                api.cluster.delete(TRAINJOB, name, namespace, propagation="Background")
                show(f"{name}: it has finished, and leaves after {seconds[name]} s")
        except (ApiException, ConfigException, UnreachableError) as error:
            said = brief(error) if isinstance(error, ApiException) else str(error).splitlines()[0]
            show(f"{name}: it has finished, and is not deleted: {said}")


def _seconds(stack: Stack) -> dict[str, int]:
    """Job's name -> how long it stays when it has finished, of those that leave."""
    policies = {job.name: job.run_policy for job in stack.jobs}
    found = {name: each.ttl_seconds_after_finished for name, each in policies.items()}
    return {name: seconds for name, seconds in found.items() if seconds is not None}


def _is_due(job: Mapping[str, Any], seconds: int) -> bool:
    """Whether `job` has succeeded, and that was `seconds` ago or earlier."""
    if job_status.condition(dict(job))[0] != job_status.SUCCEEDED:
        return False
    held = [each for each in job["status"]["conditions"] if each["status"] == "True"]
    ended = max(datetime.fromisoformat(each["lastTransitionTime"]) for each in held)
    return ended + timedelta(seconds=seconds) <= datetime.now(UTC)

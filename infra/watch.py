"""`python -m infra.watch STACK`: follows the jobs of a stack that is already applied, until they end.

It changes nothing in the cluster. It writes each run's record to the run's folder on this machine.
Exit status: 0 if all jobs succeeded, or are suspended as asked; 1 if one failed; 2 if the result is unknown.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kubernetes.client.exceptions import ApiException

from infra import paths
from infra.clusters import addresses
from infra.config import ConfigError, Stack
from infra.config.job import JobConfig
from infra.config.load import from_file
from infra.dynamic import show
from infra.objects.api import ApiAddress
from infra.objects.job_kinds import OF_API
from infra.objects.labels import RUN
from infra.objects.retry import UnreachableError, brief
from infra.run.job_api import JobApi, JobGoneError, api_of
from infra.run.metrics import metrics
from infra.run.record import Record
from infra.run.result import epochs_of
from infra.run.waiting import RunFailedError, Waiting

ENDED, FAILED, UNKNOWN = 0, 1, 2
"""Exit statuses."""


def watch_job(stack: Stack, job: JobConfig, address: ApiAddress) -> int:
    """Follow one job of `stack` to its end. Returns the exit status, and prints why if that is not ENDED."""
    namespace, kind = stack.cluster.namespace, OF_API[stack.operator.api]
    try:
        api = api_of(kind)(address, namespace, job.name, "", show, kind)
        live = api.find()
        if live is None:
            leaves = job.run_policy.ttl_seconds_after_finished is not None
            why = "; a finished job is deleted: `make runs` shows its run" if leaves else ""
            show(f"{job.name}: there is no such {kind.kind} in namespace {namespace}{why}")
            return UNKNOWN
        return _follow(stack, job, api, live)
    except ApiException as error:
        show(f"{job.name}: {brief(error)}")
    except (UnreachableError, JobGoneError) as error:
        show(f"{job.name}: {error}")
    return UNKNOWN


def _follow(stack: Stack, job: JobConfig, api: JobApi, live: dict[str, Any]) -> int:
    run = (live["metadata"].get("labels") or {}).get(RUN, "")
    folder = paths.models(stack.name) / "runs" / run if run else None
    wait = Waiting(
        api,
        suspended=job.run_policy.suspend,
        queue=job.queue or "",
        epochs=lambda: epochs_of(folder),
        record=Record(api, folder, job.model),
    )
    try:
        wait.until_end()
        told = metrics(wait.follower.finish())
        show(f"{job.name}: " + " ".join(f"{name}={value}" for name, value in told.items())) if told else None
    except RunFailedError as error:
        show(str(error))
        return FAILED
    return ENDED


def main(name: str) -> int:
    """Follow every job of the stack `name`. Returns the worst exit status."""
    try:
        stack = from_file(paths.stack_file(name))
    except ConfigError as error:
        show(str(error))
        return UNKNOWN
    address = addresses.of_stack(stack)
    with ThreadPoolExecutor(len(stack.jobs)) as pool:
        return max(pool.map(lambda job: watch_job(stack, job, address), stack.jobs))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

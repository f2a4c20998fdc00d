"""Saves the records of jobs that nobody followed to their end.

This runs before an update or a destruction, which may delete the jobs' pods: an earlier `make up` may have been
interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException

from infra import agreed, paths
from infra.clusters import addresses
from infra.config import Stack
from infra.config.sweep_trials import FOLDER, MODEL_DIR
from infra.objects.api import ApiAddress
from infra.objects.retry import Patience, UnreachableError, brief
from infra.run import record
from infra.run.job_api import of_state
from infra.run.record import Record

Job = Mapping[str, str]


def keep(stack: Stack, jobs: Iterable[Job], show: Callable[[str], None]) -> None:
    """Complete the records of `jobs` that do not have the job's end, as far as the cluster still has the data.

    A line names each job whose logs cannot be saved. If every record has its end, the cluster is not asked.

    Parameters:
        jobs: the stack's jobs, from infra.objects.stack_state.
    """
    models, address = paths.models(stack.name), addresses.of_stack(stack)
    for each in jobs:
        places = [folder / "runs" / each["run"] for folder in (models, models / FOLDER)]
        known = any(agreed.has_end(agreed.recorded(place), each["uid"]) for place in places)
        if known or each["name"] in stack.trials or not address.is_there:
            continue
        try:
            _keep(stack, each, address, places, show)
        except ApiException as error:
            show(f"{each['name']}: its logs cannot be saved: {brief(error)}")
        except (ConfigException, UnreachableError) as error:
            show(f"{each['name']}: its logs cannot be saved: {brief(error)}")
            return


def _keep(
    stack: Stack, each: Job, address: ApiAddress, places: list[Path], show: Callable[[str], None]
) -> None:
    api = of_state(address, each, show)
    api.patience = Patience(lambda _: None, 0, starting_s=0)
    job = api.job()
    if job is None:
        return
    pods = api.pods(latest=True)
    variables = record.configuration(job, pods, api.kind).get("environment", {})
    place = variables.get(MODEL_DIR, "")
    is_trial = place != stack.storage.mount_path and place.endswith(f"/{FOLDER}")
    leaves = {job.name: job.model for job in stack.jobs}
    found = Record(api, places[is_trial], leaves.get(each["name"]))
    found.see(job, pods)
    found.close(pods)

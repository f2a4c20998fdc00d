"""Ends jobs before Pulumi deletes them.

A job that leaves the stack ends before the update registers another one. Pulumi deletes it only at the end of the
update. Until then it would hold its quota. After a change of `operator.api`, the job of the other kind continues the
same run: both would write into one folder.

A TrainJob that has not ended is suspended and deleted before Pulumi deletes it in the foreground. Trainer 2.3.0
continues to reconcile a TrainJob that is being deleted: after the JobSet is deleted, Trainer creates another JobSet,
whose pods start beside the pods of the replacing job. A suspended TrainJob's JobSet is suspended, too, and has no pods.
A deletion in the foreground may hang: it waits for each object that Trainer creates again, for example a ConfigMap.
Sources: Reconcile in pkg/controller/trainjob_controller.go, which does not look at deletionTimestamp;
createRuntimeSnapshot in pkg/runtime/core; buildStatusServerCaCrtConfigMap in plugins/trainjobstatus.

A deletion only in the background, as with `pulumi.com/deletionPropagationPolicy`, does not suffice: the replacing job
could start while the old JobSet exists. Both JobSets have the same name, and Trainer would take the old JobSet's end
for the new job's end. Source: Build in pkg/runtime/framework/plugins/jobset/jobset.go, which creates no second JobSet,
and does not check the owner.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException
from pulumi.dynamic import CreateResult

from infra import agreed
from infra.dynamic import ADDRESS, DynamicResource, Props, Provider, plain_props, show
from infra.objects.api import ApiAddress
from infra.objects.job_kinds import PYTORCHJOB, TRAINJOB
from infra.objects.labels import OF_JOBSET, RUN, job_of
from infra.objects.look import PATIENCE_S
from infra.objects.retry import Patience, UnreachableError, brief
from infra.run import job_status
from infra.run.job_api import JobApi, TrainJobApi, of_state
from storage.manifests import Manifest

GONE_S, PAUSE_S = 120.0, 0.5
"""How long the pods of a deleted job may take to end, and the pause between two checks, in seconds."""
MARGIN_S = 30
"""Seconds that a pod may take beyond its grace period."""
ERRORS = (ApiException, ConfigException, UnreachableError)


class NotEndedError(agreed.ProgramError):
    """A job that leaves the stack cannot be deleted, or still has pods."""


class EndingProvider(Provider):
    """Properties: `kubeconfigPath`, `context`, `namespace`, `job`, `uid`."""

    replaced_by = ("namespace", "job", "uid")
    taken_over = ADDRESS

    def create(self, props: Props) -> CreateResult:
        return CreateResult(props["uid"], plain_props(props))

    def delete(self, _id: str, _props: Props) -> None:
        """Suspend and delete the job. An error is only shown: Pulumi's own deletion follows, and raises it again."""
        if os.environ.get(agreed.DELETE_UNREACHABLE, "").lower() in ("1", "true"):
            return
        namespace, name, uid = (_props[key] for key in ("namespace", "job", "uid"))
        api = TrainJobApi(ApiAddress.from_props(_props), namespace, name, uid, show, TRAINJOB)
        api.patience = _patience(show)
        try:
            api.ensure_usable()
            end(api)
        except ERRORS as error:
            show(f"{name}: the job cannot be suspended before its deletion: {brief(error)}")
        except NotEndedError as error:
            show(str(error))


def _patience(show: Callable[[str], None]) -> Patience:
    """A 403 counts at once: the server has answered before."""
    return Patience(show, PATIENCE_S, starting_s=0)


def end(api: TrainJobApi) -> None:
    """Suspend and delete this job if it has not ended, and wait until its JobSet and its pods are deleted.

    Raises ApiException, UnreachableError, NotEndedError.
    """
    job = api.job()
    if job is None or job_status.condition(job)[0] in job_status.ENDS:
        return
    api.has_parts()  # remembers the JobSet, to find its pods later
    api.suspend()
    api.delete()
    deadline = time.monotonic() + GONE_S
    while api.has_parts():
        if time.monotonic() > deadline:
            raise NotEndedError(
                f"{api.name}: its JobSet or its pods still exist {GONE_S:.0f} s after its deletion"
            )
        time.sleep(PAUSE_S)


def end_all(address: ApiAddress, jobs: Iterable[Mapping[str, str]], show: Callable[[str], None]) -> None:
    """Delete `jobs` and wait until their pods have ended, also pods of a job that is deleted already.

    Raises NotEndedError if a job cannot be deleted, or if a pod of one does not end.

    Parameters:
        jobs: from infra.objects.stack_state.
    """
    left = {_of_job(each): of_state(address, each, show) for each in jobs}
    for api in left.values():
        api.patience = _patience(show)
    try:
        busy = {_of_pod(pod) for pod in _unfinished(left)}
        for which, api in left.items():
            job = api.job()
            if job and (which in busy or job_status.condition(job)[0] not in job_status.ENDS):
                if isinstance(api, TrainJobApi):
                    with suppress(*ERRORS):  # without it, a pod that fails now may start again
                        api.suspend()
                api.delete()
                show(f"{api.title} has left the stack: it was deleted before other jobs start")
        _wait(left)
    except ERRORS as error:
        raise NotEndedError(
            f"jobs that have left the stack must end before other jobs start, but cannot be deleted: {brief(error)}\n"
            f"  fix: delete them ({', '.join(map(_command, left.values()))}), wait until their pods are gone, then run "
            "the same command again"
        ) from None


# A job: its namespace, kind, name and run.
Which = tuple[str, str, str, str]


def _of_job(job: Mapping[str, str]) -> Which:
    return job["namespace"], job["kind"], job["name"], job["run"]


def _of_pod(pod: Manifest) -> Which:
    labels = pod["metadata"]["labels"]
    kind = TRAINJOB if OF_JOBSET in labels else PYTORCHJOB
    return pod["metadata"]["namespace"], kind.kind, job_of(labels), labels[RUN]


def _command(api: JobApi) -> str:
    return f"`kubectl delete {api.kind.plural} {api.name} --namespace {api.namespace}`"


def _unfinished(left: Mapping[Which, JobApi]) -> list[Manifest]:
    """The pods of these jobs that have not ended. Another job may have the name of one; its run is another."""
    spaces = {api.namespace: api for api in left.values()}
    pods = [pod for api in spaces.values() for pod in api.pods_of_runs()]
    return [pod for pod in pods if _of_pod(pod) in left and pod["status"].get("phase") not in job_status.ENDS]


def _wait(left: Mapping[Which, JobApi]) -> None:
    """Wait until the pods of these jobs have ended. Raises NotEndedError if one takes longer than it may."""
    begun = time.monotonic()
    while pods := _unfinished(left):
        grace = max(pod["spec"].get("terminationGracePeriodSeconds") or 0 for pod in pods)
        if time.monotonic() - begun > max(GONE_S, grace + MARGIN_S):
            names = ", ".join(f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in pods)
            commands = {f"`kubectl get pods --namespace {space} --selector {RUN}`" for space, *_ in left}
            raise NotEndedError(
                f"pods of jobs that have left the stack still run, and other jobs must not start beside them: {names}\n"
                f"  fix: wait until they are gone ({', '.join(sorted(commands))}), then run the same command again"
            )
        time.sleep(PAUSE_S)


class Ending(DynamicResource, provider=EndingProvider, name="TrainJobEnding"):
    """Exists as long as its TrainJob. It is deleted before the TrainJob."""

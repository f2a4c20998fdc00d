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
from typing import Any

from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException
from pulumi import ResourceOptions
from pulumi.dynamic import CreateResult, Resource

from infra import agreed
from infra.dynamic import ADDRESS, Props, Provider, plain_props, show
from infra.objects.api import ApiAddress
from infra.objects.job_kinds import NAMES, TRAINJOB
from infra.objects.retry import UnreachableError, brief
from infra.run import job_status
from infra.run.job_api import JobApi, TrainJobApi, api_of

# The server's answers if no job has this name (404), or if another job has it (409).
OTHERS = (404, 409)
GONE_S, PAUSE_S = 120.0, 0.5
"""How long the pods of a deleted job may take to end, and the pause between two checks, in seconds."""
ERRORS = (ApiException, ConfigException, UnreachableError)


class NotEndedError(agreed.ProgramError):
    """A job that leaves the stack still has pods."""


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
        try:
            api.ensure_usable()
            end(api)
        except ERRORS as error:
            show(f"{name}: the job cannot be suspended before its deletion: {_said(error)}")
        except NotEndedError as error:
            show(str(error))


def _said(error: Exception) -> str:
    return brief(error) if isinstance(error, ApiException) else str(error)


def end_all(address: ApiAddress, jobs: Iterable[Mapping[str, str]], show: Callable[[str], None]) -> None:
    """End `jobs`, as the state has them. Raises NotEndedError if one of them may still have pods."""
    for each in jobs:
        kind, about = NAMES[each["kind"]], f"{each['kind']} {each['namespace']}/{each['name']}"
        api = api_of(kind)(address, each["namespace"], each["name"], each["uid"], show, kind)
        try:
            if end(api):
                show(f"{about} has left the stack: it was deleted before other jobs start")
        except (*ERRORS, NotEndedError) as error:
            command = f"kubectl delete {kind.plural} {each['name']} --namespace {each['namespace']}"
            raise NotEndedError(
                f"{about} has left the stack, and cannot be ended before other jobs start: {_said(error)}\n"
                f"  fix: `{command}`, wait until its pods are gone, then run the same command again"
            ) from None


def end(api: JobApi) -> bool:
    """Delete this job if it has not ended, and wait until its pods are deleted. Returns whether it deleted the job.

    A TrainJob is suspended first; its JobSet is deleted, too.

    Raises ApiException, UnreachableError, NotEndedError.
    """
    job = api.job()
    if job is None or job_status.condition(job)[0] in job_status.ENDS:
        return False
    api.has_parts()  # remembers the JobSet, to find its pods later
    # With the uid, the server refuses to change another job of the same name.
    wanted = {"metadata": {"uid": api.uid}, "spec": {"suspend": True} if api.kind is TRAINJOB else {}}
    try:
        api.cluster.patch(api.kind, api.name, wanted, api.namespace)
        api.cluster.delete(api.kind, api.name, api.namespace, propagation="Background")
    except ApiException as error:
        if error.status not in OTHERS:
            raise
        return False
    deadline = time.monotonic() + GONE_S
    while api.has_parts():
        if time.monotonic() > deadline:
            raise NotEndedError(f"{api.name}: its pods still exist {GONE_S:.0f} s after its deletion")
        time.sleep(PAUSE_S)
    return True


class Ending(Resource, module="trainstack", name="TrainJobEnding"):
    """Exists as long as its TrainJob. It is deleted before the TrainJob."""

    def __init__(self, name: str, props: dict[str, Any], opts: ResourceOptions) -> None:
        super().__init__(EndingProvider(), name, props, opts)

"""Suspends a TrainJob that has not ended before Pulumi deletes it.

Trainer 2.2.0 goes on reconciling a TrainJob that is being deleted: once its JobSet is gone it makes another one, whose
pods start beside those of the job's successor. The JobSet of a suspended TrainJob is suspended, too, and has no pods.
Source: Reconcile in pkg/controller/trainjob_controller.go, which does not look at the deletion's time.
"""

from __future__ import annotations

import os
from typing import Any

from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException
from pulumi import ResourceOptions
from pulumi.dynamic import CreateResult, Resource

from infra import agreed
from infra.dynamic import ADDRESS, Props, Provider, plain_props, show
from infra.objects.api import ApiAddress
from infra.objects.job_kinds import TRAINJOB
from infra.objects.patience import UnreachableError, brief
from infra.run import job_status
from infra.run.trainjob_api import TrainJobApi

# Another job has taken the name, or none has it.
OTHERS = (404, 409)


class EndingProvider(Provider):
    """Properties: `kubeconfigPath`, `context`, `namespace`, `job`, `uid`."""

    replaced_by = ("namespace", "job", "uid")
    taken_over = ADDRESS

    def create(self, props: Props) -> CreateResult:
        return CreateResult(props["uid"], plain_props(props))

    def delete(self, _id: str, _props: Props) -> None:
        """A refusal of the cluster is shown and ends nothing here: the deletion that follows meets it, too."""
        if os.environ.get(agreed.DELETE_UNREACHABLE, "").lower() in ("1", "true"):
            return
        namespace, name, uid = (_props[key] for key in ("namespace", "job", "uid"))
        api = TrainJobApi(ApiAddress.from_props(_props), namespace, name, uid, show, TRAINJOB)
        try:
            api.ensure_usable()
            suspend(api)
        except (ApiException, ConfigException, UnreachableError) as error:
            said = brief(error) if isinstance(error, ApiException) else str(error)
            show(f"{name}: it is deleted without being suspended first: {said}")


def suspend(api: TrainJobApi) -> None:
    """Suspend this very job where it has not ended. Raises ApiException, UnreachableError."""
    job = api.job()
    if job is None or job_status.condition(job)[0] in job_status.ENDED:
        return
    # With the uid, the server refuses to touch another job of the name.
    wanted = {"metadata": {"uid": api.uid}, "spec": {"suspend": True}}
    try:
        api.cluster.patch(TRAINJOB, api.name, wanted, api.namespace)
    except ApiException as error:
        if error.status not in OTHERS:
            raise


class Ending(Resource, module="trainstack", name="TrainJobEnding"):
    """There as long as its TrainJob; goes first."""

    def __init__(self, name: str, props: dict[str, Any], opts: ResourceOptions) -> None:
        super().__init__(EndingProvider(), name, props, opts)

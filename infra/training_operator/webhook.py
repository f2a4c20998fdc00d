"""Waits until the operator's webhook answers."""

from __future__ import annotations

import time
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException
from pulumi import ResourceOptions
from pulumi.dynamic import CreateResult, Resource, UpdateResult

from infra.dynamic import Props, Provider, plain_props, show
from infra.objects.api import ApiAddress, api_client
from infra.objects.patience import Patience
from infra.objects.pod_security import restricted_container
from infra.objects.pytorchjob import API_VERSION, GROUP, KIND, PLURAL, VERSION

WAIT_S = 180
PAUSE_S = 0.5


class WebhookError(RuntimeError):
    """The operator's webhook gave no answer."""


def probe_job(namespace: str) -> dict[str, Any]:
    """A PyTorchJob that is right, keeps to the policies, and is only asked about."""
    limits = {"cpu": "1", "memory": "1Gi"}
    container = {
        "name": "pytorch",
        "image": f"pytorch@sha256:{'0' * 64}",
        "resources": {"limits": limits},
        "securityContext": restricted_container(),
    }
    replica = {
        "replicas": 1,
        "restartPolicy": "Never",
        "template": {"spec": {"containers": [container]}},
    }
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"generateName": "trainstack-webhook-", "namespace": namespace},
        "spec": {
            "runPolicy": {"backoffLimit": 0, "activeDeadlineSeconds": 1},
            "pytorchReplicaSpecs": {"Master": replica},
        },
    }


def answers(jobs: client.CustomObjectsApi, namespace: str) -> bool:
    """Whether a server-side dry run comes through.

    False at 500, as the webhook's service or certificate is not there yet, and at 404: the CRD is not served yet.
    """
    try:
        jobs.create_namespaced_custom_object(
            GROUP, VERSION, namespace, PLURAL, probe_job(namespace), dry_run="All"
        )
    except ApiException as error:
        if error.status not in (404, 500):
            raise
        return False
    return True


def wait(address: ApiAddress, namespace: str) -> None:
    """Ask until the answer comes. Raises WebhookError after WAIT_S seconds, and UnreachableError."""
    jobs = client.CustomObjectsApi(api_client(address))
    patience = Patience(show)
    end = time.monotonic() + WAIT_S
    try:
        while not patience.ask(lambda: answers(jobs, namespace)):
            if time.monotonic() > end:
                raise WebhookError("the training-operator's webhook does not answer: see its pod's log")
            time.sleep(PAUSE_S)
    except ApiException as error:
        raise WebhookError(f"the training-operator's webhook does not answer: {error.body}") from None


class WebhookProvider(Provider):
    """Properties: `kubeconfigPath`, `context`, `namespace`, `operator` (uid of its Deployment)."""

    updated_by = ("operator",)

    def create(self, props: Props) -> CreateResult:
        wait(ApiAddress.from_props(props), props["namespace"])
        return CreateResult(props["namespace"], plain_props(props))

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        wait(ApiAddress.from_props(_news), _news["namespace"])
        return UpdateResult(plain_props(_news))


class Webhook(Resource, module="trainstack", name="OperatorWebhook"):
    """There once PyTorchJobs can be created."""

    def __init__(self, name: str, props: dict[str, Any], opts: ResourceOptions) -> None:
        super().__init__(WebhookProvider(), name, props, opts)

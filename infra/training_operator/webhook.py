"""Waits until the webhooks of the operator answer."""

from __future__ import annotations

import time
from typing import Any

from kubernetes.client.exceptions import ApiException
from pulumi.dynamic import CreateResult

from infra.config.operator import OperatorApi
from infra.dynamic import ADDRESS, DynamicResource, Props, Provider, plain_props, show
from infra.objects.api import ApiAddress
from infra.objects.cluster_api import ClusterApi
from infra.objects.job_kinds import FLAVOR, JOBSET, KUEUE, PYTORCHJOB, RUNTIME, TRAINJOB
from infra.objects.kinds import Kind
from infra.objects.pod_security import restricted_container
from infra.objects.retry import Patience

WAIT_S = 180
PAUSE_S = 0.5


class WebhookError(RuntimeError):
    """The operator's webhook did not answer."""


def probe_job(namespace: str) -> dict[str, Any]:
    """A valid PyTorchJob that breaks no policy, for a dry run."""
    container = _container("pytorch")
    replica = {
        "replicas": 1,
        "restartPolicy": "Never",
        "template": {"spec": {"containers": [container]}},
    }
    return {
        "apiVersion": PYTORCHJOB.api_version,
        "kind": PYTORCHJOB.kind,
        "metadata": {"generateName": "trainstack-webhook-", "namespace": namespace},
        "spec": {
            "runPolicy": {"backoffLimit": 0, "activeDeadlineSeconds": 1},
            "pytorchReplicaSpecs": {"Master": replica},
        },
    }


def _container(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "image": f"pytorch@sha256:{'0' * 64}",
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
        "securityContext": restricted_container(),
    }


def probes(of: str, namespace: str) -> list[dict[str, Any]]:
    """The objects for the dry runs: one for each program with webhooks.

    Parameters:
        of: the API of the jobs, or KUEUE.
    """
    if of == OperatorApi.V1:
        return [probe_job(namespace)]
    # A fixed name, not generateName: JobSet's webhook checks the names of Jobs, which depend on it.
    metadata = {"name": "trainstack-webhook", "namespace": namespace}
    if of == KUEUE:
        flavor = {"apiVersion": FLAVOR.api_version, "kind": FLAVOR.kind, "spec": {}}
        return [{**flavor, "metadata": {"name": metadata["name"]}}]
    pod = {"restartPolicy": "Never", "containers": [_container(TRAINJOB.container)]}
    template = {"spec": {"backoffLimit": 0, "template": {"spec": pod}}}
    jobset = {"replicatedJobs": [{"name": TRAINJOB.container, "replicas": 1, "template": template}]}
    kinds = (
        (JOBSET.api_version, JOBSET.kind, jobset),
        (TRAINJOB.api_version, RUNTIME, {"template": {"spec": jobset}}),
    )
    return [
        {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
        for version, kind, spec in kinds
    ]


def is_answering(api: ClusterApi, probe: dict[str, Any]) -> bool:
    """Whether a server-side dry run succeeds.

    False at 500 (the webhook's service or certificate is still missing) and at 404 (the CRD is not served yet).
    """
    try:
        api.create(Kind.of(probe["kind"], probe["apiVersion"]), probe, dry_run=True)
    except ApiException as error:
        if error.status not in (404, 500):
            raise
        return False
    return True


def wait(address: ApiAddress, namespace: str, of: str = OperatorApi.V1) -> None:
    """Ask until all webhooks answer. Raises WebhookError after WAIT_S seconds, and UnreachableError."""
    cluster = ClusterApi.at(address)
    patience = Patience(show)
    end = time.monotonic() + WAIT_S
    try:
        for probe in probes(of, namespace):
            while not patience.ask(lambda: is_answering(cluster, probe)):  # noqa: B023 - called at once
                if time.monotonic() > end:
                    raise WebhookError(
                        f"the webhook of {probe['kind']} does not answer\n  fix: the operator's log shows why"
                    )
                time.sleep(PAUSE_S)
    except ApiException as error:
        raise WebhookError(f"the API server refuses a dry run of {probe['kind']}: {error.body}") from None


class WebhookProvider(Provider):
    """Properties: `kubeconfigPath`, `context`, `namespace`, `operator` (its Deployments' uids), `api` (not for v1)."""

    updated_by = ("operator",)
    taken_over = ADDRESS

    def create(self, props: Props) -> CreateResult:
        wait(ApiAddress.from_props(props), props["namespace"], str(props.get("api") or OperatorApi.V1))
        return CreateResult(props["namespace"], plain_props(props))


class Webhook(DynamicResource, provider=WebhookProvider, name="OperatorWebhook"):
    """Exists once jobs can be created."""

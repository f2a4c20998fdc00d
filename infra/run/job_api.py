"""One PyTorchJob and its pods, as the API server tells of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import urllib3
from kubernetes import client, watch
from kubernetes.client.exceptions import ApiException

from infra.objects.api import ApiAddress, api_client

GROUP, VERSION, PLURAL = "kubeflow.org", "v1", "pytorchjobs"
JOB_LABEL = "training.kubeflow.org/job-name"
# How long a watch stands still before the pods are looked at again.
LOOK_S = 2
LAST_LINES = 20


class JobGoneError(RuntimeError):
    """The PyTorchJob is no longer there."""


@dataclass
class Run:
    """A PyTorchJob to follow. `show` gets each line worth showing."""

    address: ApiAddress
    namespace: str
    name: str
    uid: str
    show: Callable[[str], None]
    trouble_since: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        connection = api_client(self.address)
        self.jobs = client.CustomObjectsApi(connection)
        self.core = client.CoreV1Api(connection)
        self.connection = connection

    def job(self) -> dict[str, Any] | None:
        """The job, None when it or its cluster is gone, or another one has taken its name."""
        try:
            job: Any = self.jobs.get_namespaced_custom_object(
                GROUP, VERSION, self.namespace, PLURAL, self.name
            )
        except ApiException as error:
            if error.status == 404:
                return None
            raise
        return job if job["metadata"]["uid"] == self.uid else None

    def pods(self) -> list[dict[str, Any]]:
        found = self.core.list_namespaced_pod(self.namespace, label_selector=f"{JOB_LABEL}={self.name}")
        mine = [self.connection.sanitize_for_serialization(pod) for pod in found.items]  # type: ignore[no-untyped-call]
        return [pod for pod in mine if _owner(pod) == self.uid]

    def observations(self) -> Iterator[dict[str, Any]]:
        """The job now, at each of its changes, and every LOOK_S seconds. Raises JobGoneError."""
        while True:
            job = self.job()
            if job is None:
                raise JobGoneError(
                    f"PyTorchJob {self.namespace}/{self.name} was deleted while it was waited for"
                )
            yield job
            changes = watch.Watch().stream(  # type: ignore[no-untyped-call]
                self.jobs.list_namespaced_custom_object,
                *(GROUP, VERSION, self.namespace, PLURAL),
                field_selector=f"metadata.name={self.name}",
                resource_version=job["metadata"]["resourceVersion"],
                timeout_seconds=LOOK_S,
            )
            try:
                next(iter(changes), None)
            except (ApiException, urllib3.exceptions.HTTPError):
                time.sleep(LOOK_S)  # the API server restarts, or the version asked for is too old: look anew

    def last_lines(
        self, pod: str, container: str, previous: bool = False, lines: int = LAST_LINES
    ) -> list[str]:
        try:
            text = self.core.read_namespaced_pod_log(
                pod, self.namespace, container=container, previous=previous, tail_lines=lines
            )
        except ApiException:
            return []  # the node has dropped it
        return str(text).splitlines()


def _owner(pod: dict[str, Any]) -> str:
    return next((str(entry["uid"]) for entry in pod["metadata"].get("ownerReferences") or []), "")

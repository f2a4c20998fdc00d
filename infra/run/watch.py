"""Follows one PyTorchJob to its end through the Kubernetes API."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import urllib3
from kubernetes import client, watch
from kubernetes.client.exceptions import ApiException

from infra.api import ApiAddress, api_client
from infra.run import state
from infra.run.follow import LAST_LINES, Follower

GROUP, VERSION, PLURAL = "kubeflow.org", "v1", "pytorchjobs"
JOB_LABEL = "training.kubeflow.org/job-name"
# How long a watch stands still before the pods are looked at again.
LOOK_S = 2


class RunFailedError(RuntimeError):
    """The training failed. The text has the failing pod's last lines."""


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


def wait(run: Run, rank0: str) -> dict[str, Any]:
    """Follow `run` until it succeeded, or was suspended as asked; its metrics and status.

    Raises RunFailedError within seconds of a failure, JobGoneError. `rank0`: the pod whose log tells the metrics.
    """
    follower = Follower(run, rank0)
    shown = ""
    for job in run.observations():
        now, message = state.condition(job)
        pods = run.pods()
        found = state.troubles(pods)
        text = "; ".join([f"{run.name}: {now}", *(str(each) for each in found)])
        if text != shown:
            run.show(text)
            shown = text
        if now in (state.SUCCEEDED, state.SUSPENDED):
            return {"jobStatus": now} | follower.finish()
        if now == state.FAILED:
            raise RunFailedError(_failure(run, message, pods, follower))
        _give_up(run, found)
        follower.ensure_started(pods)
    raise AssertionError("the job's observations do not end")


def _give_up(run: Run, found: list[state.Trouble]) -> None:
    """Raises RunFailedError for a pod that will not start."""
    now = time.monotonic()
    lasting = {f"{each.pod}": each for each in found if each.hopeless or each.reason in state.TROUBLED}
    run.trouble_since = {pod: run.trouble_since.get(pod, now) for pod in lasting}
    for pod, each in lasting.items():
        if each.hopeless or now - run.trouble_since[pod] > state.TROUBLED_S:
            raise RunFailedError(f"PyTorchJob {run.namespace}/{run.name} cannot run: {each}\n{_again(run)}")


def _failure(run: Run, message: str, pods: list[dict[str, Any]], follower: Follower) -> str:
    """The error's text: what the operator says, the failing container, its last lines, how to try again.

    The operator deletes the pods of a job that has failed for good; then what was followed of rank 0 has to do.
    """
    pod, container, previous = state.failed_container(pods) or (follower.pod, "pytorch", False)
    lines = run.last_lines(pod, container, previous)
    if not lines:
        pod, lines = follower.pod, list(follower.latest)
    told = [f"last lines of pod {pod}, container {container}:", *(f"    {line}" for line in lines)]
    return "\n".join([f"PyTorchJob {run.namespace}/{run.name} failed: {message}", *told, _again(run)])


def _again(run: Run) -> str:
    return (
        f"  fix: correct the cause; a changed job is replaced by the next `pulumi up`. To try the same job again: "
        f"kubectl -n {run.namespace} delete pytorchjob {run.name}, then `make up`"
    )

"""One job, its pods, their logs and events, as the API server has them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import urllib3
from kubernetes import client, watch
from kubernetes.client.exceptions import ApiException

from infra.objects.api import ApiAddress
from infra.objects.cluster_api import ClusterApi
from infra.objects.job_kinds import PYTORCHJOB, JobKind
from infra.objects.kinds import EVENT, POD
from infra.objects.labels import RUN
from infra.objects.patience import FORBIDDEN, Patience, T, UnreachableError, is_transient

JOB_LABEL = "training.kubeflow.org/job-name"
# The whole answer, with status 200, for the log of a container that the kubelet has removed: it keeps the last one.
REMOVED = "unable to retrieve container logs for "
# How long one answer may take, in seconds: a connection that is half open answers never.
ANSWER_S = 30
# How long a log is tried for, in seconds: the API server may be there while the kubelet that has the log is not.
LOG_PATIENCE_S = 10
LAST_LINES = 20


class JobGoneError(RuntimeError):
    """The job is no longer there."""


@dataclass
class JobApi:
    """The API as one job needs it. Each call waits for a server that is away, and raises UnreachableError.

    Parameters:
        uid: of the job; another one of its name is not this one.
        show: gets each line worth showing.
        kind: of the job.
    """

    address: ApiAddress
    namespace: str
    name: str
    uid: str
    show: Callable[[str], None]
    kind: JobKind = PYTORCHJOB

    look_s: ClassVar[int] = 2
    """How long a watch stands still before the pods are looked at again, in seconds."""

    def __post_init__(self) -> None:
        self.patience = Patience(self.show)

    @functools.cached_property
    def cluster(self) -> ClusterApi:
        """It tries nothing again by itself: `patience` does."""
        return ClusterApi.at(self.address, urllib3.Retry(0), ANSWER_S)

    @classmethod
    def of_name(
        cls,
        address: ApiAddress,
        namespace: str,
        name: str,
        show: Callable[[str], None],
        kind: JobKind = PYTORCHJOB,
    ) -> tuple[Self, dict[str, Any]] | None:
        """The API of the job that has this name now, with that job; None when the server says that there is none."""
        api = cls(address, namespace, name, "", show, kind)
        job = api._named()
        if job is None:
            return None
        api.uid = job["metadata"]["uid"]
        return api, job

    @classmethod
    def of_engine(
        cls,
        address: ApiAddress,
        namespace: str,
        name: str,
        show: Callable[[str], None],
        kind: JobKind = PYTORCHJOB,
    ) -> tuple[Self, dict[str, Any]] | None:
        """As `of_name`, of the newest job that a GitOps engine has made of the job `name`: it has its run's name."""
        api = cls(address, namespace, name, "", show, kind)
        listed = api._ask(lambda: api.cluster.listed(kind, namespace, labels=RUN))
        known = ((each["metadata"], each["metadata"]["labels"][RUN]) for each in listed)
        made = [each for each, run in known if each["name"] == run and run.rpartition("-")[0] == name]
        if not made:
            return None
        newest = max(made, key=lambda each: str(each["creationTimestamp"]))
        return cls.of_name(address, namespace, newest["name"], show, kind)

    def job(self) -> dict[str, Any] | None:
        """The job. None when the server says that there is none, or another one has taken its name."""
        job = self._named()
        return job if job and job["metadata"]["uid"] == self.uid else None

    def _named(self) -> dict[str, Any] | None:
        """The job of this name, whichever it is."""
        try:
            return self._ask(lambda: self.cluster.get(self.kind, self.name, self.namespace))
        except ApiException as error:
            if error.status == 404:
                return None
            raise

    def pods(self) -> list[dict[str, Any]]:
        """The job's own pods; those of an earlier job of its name are not."""
        return [pod for pod in self.selected_pods(f"{JOB_LABEL}={self.name}") if owner(pod) == self.uid]

    def selected_pods(self, selector: str) -> list[dict[str, Any]]:
        """The pods of the namespace that a label selector finds."""
        return self._ask(lambda: self.cluster.listed(POD, self.namespace, labels=selector))

    def warnings(self) -> list[dict[str, Any]]:
        """The job's own events of type Warning: why its pods cannot be created."""
        return self.warnings_about(self.uid)

    def warnings_about(self, uid: str) -> list[dict[str, Any]]:
        """The events of type Warning about the object with this uid."""
        selector = f"involvedObject.uid={uid},type=Warning"
        return self._ask(lambda: self.cluster.listed(EVENT, self.namespace, fields=selector))

    def observations(self) -> Iterator[dict[str, Any]]:
        """The job now, at each of its changes, and every `look_s` seconds. Raises JobGoneError."""
        while True:
            job = self.job()
            if job is None:
                raise JobGoneError(
                    f"{self.kind.kind} {self.namespace}/{self.name} was deleted while it was waited for"
                )
            yield job
            try:
                self._wait_for_change(job["metadata"]["resourceVersion"])
            except ApiException as error:
                # 410: the version is too old to watch from. 403: the next look tells whether it lasts.
                if error.status not in (FORBIDDEN, 410) and not is_transient(error):
                    raise
            except Exception as error:
                if not is_transient(error):
                    raise

    def _wait_for_change(self, version: str) -> None:
        changes = watch.Watch().stream(  # type: ignore[no-untyped-call]
            client.CustomObjectsApi(self.cluster.connection).list_namespaced_custom_object,
            *(self.kind.group, self.kind.version, self.namespace, self.kind.plural),
            field_selector=f"metadata.name={self.name}",
            resource_version=version,
            timeout_seconds=self.look_s,
            _request_timeout=ANSWER_S,
        )
        next(iter(changes), None)

    def last_lines(
        self, pod: str, container: str, previous: bool = False, lines: int = LAST_LINES
    ) -> list[str]:
        """The end of a container's log; empty where pod or log are gone, or cannot be reached for long.

        Parameters:
            previous: the log of the start before the current one, as long as the node has it.
        """
        starts = (True, False) if previous else (False,)
        return next(filter(None, (self._read_log(pod, container, each, lines) for each in starts)), [])

    def _read_log(self, pod: str, container: str, previous: bool, lines: int) -> list[str]:
        patience = Patience(lambda _: None, LOG_PATIENCE_S)
        try:
            text = patience.ask(
                lambda: self.cluster.log(
                    pod, self.namespace, container=container, previous=previous, tailLines=lines
                )
            )
        except (ApiException, UnreachableError):
            return []
        return [] if text.startswith(REMOVED) else text.splitlines()

    def log_stream(self, pod: str, container: str) -> Iterator[bytes]:
        """A container's log from its beginning, as it is written; raises whatever breaks the connection."""
        return self.cluster.log_stream(pod, self.namespace, container)

    def _ask(self, call: Callable[[], T]) -> T:
        def renewed() -> T:
            if self.patience.away_since is not None:
                self.__dict__.pop("cluster", None)  # the kubeconfig may have been written again
            return call()

        return self.patience.ask(renewed)


def owner(each: dict[str, Any]) -> str:
    """The uid of what made an object; empty where nothing has."""
    return next((str(entry["uid"]) for entry in each["metadata"].get("ownerReferences") or []), "")

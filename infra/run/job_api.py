"""One job, its pods, their logs and events, from the API server."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import urllib3
from kubernetes.client.exceptions import ApiException

from infra.objects.api import ApiAddress
from infra.objects.cluster_api import ClusterApi
from infra.objects.informer import ANSWER_S, Informer, Selection, shared
from infra.objects.job_kinds import JOBSET, NAMES, PYTORCHJOB, TRAINJOB, JobKind
from infra.objects.kinds import EVENT, JOB, POD, Kind
from infra.objects.labels import RUN
from infra.objects.retry import Patience, T, UnreachableError
from infra.run import job_status
from storage.manifests import Manifest

# The server's answers if no job has this name (404), or if another job has it (409).
OTHERS = (404, 409)
JOB_LABEL = "training.kubeflow.org/job-name"
# If the kubelet has deleted a container and its log, this is the whole answer, with status 200. The kubelet keeps only
# the last container.
REMOVED = "unable to retrieve container logs for "
# Without a change, the job is read again after this time, in seconds.
LOOK_S = 2
# How long to try to read a log, in seconds: the API server may answer while the kubelet with the log does not.
LOG_PATIENCE_S = 10
LAST_LINES = 20


class JobGoneError(RuntimeError):
    """The job no longer exists."""


@dataclass
class JobApi:
    """The API calls for one job. A call waits while the server does not answer, and at last raises UnreachableError.

    Parameters:
        uid: the job's uid. Another job may have the same name.
        show: gets each line for the user.
        kind: the job's kind.
    """

    address: ApiAddress
    namespace: str
    name: str
    uid: str
    show: Callable[[str], None]
    kind: JobKind = PYTORCHJOB

    def __post_init__(self) -> None:
        self.patience = Patience(self.show)
        self._shared = ExitStack()
        self._informers: dict[tuple[Selection, str], Informer] = {}
        self._changed = threading.Event()

    @property
    def title(self) -> str:
        """`PyTorchJob kubeflow/mnist`, for the user."""
        return f"{self.kind.kind} {self.namespace}/{self.name}"

    @functools.cached_property
    def cluster(self) -> ClusterApi:
        """The cluster's API. It does not repeat a failed call: `patience` does."""
        return ClusterApi.at(self.address, urllib3.Retry(0), ANSWER_S)

    def ensure_usable(self) -> None:
        """Raises ConfigException if the kubeconfig or its context is missing, so that no call waits for them."""
        self.cluster  # noqa: B018 - creates the client

    def find(self) -> dict[str, Any] | None:
        """The job that has this name now; None if there is none. From now on, this is the API of that job.

        If no job has this name: the newest job that a GitOps engine created from this one, and named by its run's id.
        """
        found = self._named()
        if found is None:
            listed = self._ask(lambda: self.cluster.listed(self.kind, self.namespace, labels=RUN))
            known = [(each, each["metadata"]["name"], each["metadata"]["labels"][RUN]) for each in listed]
            made = [each for each, name, run in known if name == run and run.rpartition("-")[0] == self.name]
            found = max(made, key=lambda each: str(each["metadata"]["creationTimestamp"]), default=None)
        if found:
            self.name, self.uid = found["metadata"]["name"], found["metadata"]["uid"]
        return found

    def job(self) -> dict[str, Any] | None:
        """The job; None if the server says that no job has its name, or that another job has it."""
        job = self._named()
        return job if job and job["metadata"]["uid"] == self.uid else None

    def _named(self) -> dict[str, Any] | None:
        """The job of this name, also if it is another job."""
        return self._ask_unless({404}, lambda: self.cluster.get(self.kind, self.name, self.namespace))

    def _ask_unless(self, statuses: Collection[int], call: Callable[[], T]) -> T | None:
        """The result of `call`; None if the server answers with one of `statuses`."""
        try:
            return self._ask(call)
        except ApiException as error:
            if error.status not in statuses:
                raise
            return None

    def pods(self, *, latest: bool = False) -> list[dict[str, Any]]:
        """The job's own pods, without pods of an earlier job of its name.

        Parameters:
            latest: read them from the server now; otherwise from the last watch event, which may be older than the job.
        """
        return [pod for pod in self._pods_with(JOB_LABEL, self.name, latest) if owner(pod) == self.uid]

    def _pods_with(self, label: str, value: str, latest: bool) -> list[Manifest]:
        if latest:
            return self._ask(lambda: self.cluster.listed(POD, self.namespace, labels=f"{label}={value}"))
        return self._known(self._selection(POD, _by(label), labels=label), value)

    def leader(self, job: Mapping[str, Any]) -> str:
        """The beginning of the name of rank 0's pod: some kinds of job add a suffix at each start."""
        has_master = "Master" in (job["spec"].get("pytorchReplicaSpecs") or {})
        return f"{self.name}-{'master' if has_master else 'worker'}-0"

    def delete(self) -> None:
        """Delete this job, if it exists; the server deletes its pods later. Another job of its name stays."""
        how = {"propagation": "Background", "uid": self.uid}
        self._ask_unless(OTHERS, lambda: self.cluster.delete(self.kind, self.name, self.namespace, **how))

    def pods_of_runs(self) -> list[Manifest]:
        """The pods of all runs in the job's namespace, from the server now."""
        return self._ask(lambda: self.cluster.listed(POD, self.namespace, labels=RUN))

    def warnings(self) -> list[dict[str, Any]]:
        """The job's own events of type Warning: they say why its pods cannot be created."""
        return self.warnings_about(self.uid)

    def warnings_about(self, uid: str) -> list[dict[str, Any]]:
        """The events of type Warning about the object with this uid."""
        return self._known(self._selection(EVENT, _about, fields="type=Warning"), uid)

    @contextmanager
    def following(self) -> Iterator[None]:
        """Inside the block, jobs, pods and warnings come from watches that all followed jobs of this process share."""
        with ExitStack() as self._shared:
            self._shared.callback(self._informers.clear)
            yield

    def observations(self) -> Iterator[dict[str, Any]]:
        """Yields the job after each change of the job or of objects read by this API, and every LOOK_S seconds.

        If the job was deleted after its end, yields its last version. Raises JobGoneError if it was deleted before.
        """
        selection = self._selection(self.kind, _name)
        while True:
            known = [job for job in self._known(selection, self.name) if job["metadata"]["uid"] == self.uid]
            job = known[0] if known else self.job() or self._end(selection)
            if job is None:
                raise JobGoneError(f"{self.title} was deleted before it ended")
            yield job
            self._changed.wait(LOOK_S)
            self._changed.clear()

    def _end(self, selection: Selection) -> dict[str, Any] | None:
        """The last version of a deleted job, if it had ended."""
        job = self._informers[selection, self.name].gone(self.name)
        has_ended = (
            job and job["metadata"]["uid"] == self.uid and job_status.condition(job)[0] in job_status.ENDS
        )
        return job if has_ended else None

    def _selection(
        self, kind: Kind, key: Callable[[Manifest], str], labels: str = "", fields: str = ""
    ) -> Selection:
        return Selection(self.address, kind, self.namespace, key, labels, fields)

    def _known(self, selection: Selection, key: str) -> list[Manifest]:
        """The informer's objects with `key`. From now on, their changes wake `observations`."""
        informer = self._informers.get((selection, key))
        if informer is None:
            informer = self._shared.enter_context(shared(selection))
            self._shared.enter_context(informer.telling(key, self._changed))
            self._informers[selection, key] = informer
        return self._ask(lambda: informer.objects(key))

    def last_lines(
        self, pod: str, container: str, previous: bool = False, lines: int = LAST_LINES
    ) -> list[str]:
        """The last lines of a container's log; empty if the log is gone or forbidden, or if the node does not answer.

        Parameters:
            previous: read the log of the previous start; if the node no longer has it, the log of the last start.
        """
        for each in (True, False) if previous else (False,):
            with suppress(ApiException, UnreachableError):
                if text := self.read_log(pod, container, each, lines, LOG_PATIENCE_S):
                    # Not splitlines: it also splits at a carriage return.
                    return [last_state(line) for line in text.removesuffix("\n").split("\n")]
        return []

    def read_log(
        self, pod: str, container: str, previous: bool, lines: int, limit_s: float, *, timed: bool = False
    ) -> str:
        """The end of a container's log; empty if the node has deleted the log.

        Raises ApiException, and UnreachableError if neither server nor node answered for `limit_s` seconds.

        Parameters:
            timed: with a time before each line.
        """
        options = {"container": container, "previous": previous, "tailLines": lines, "timestamps": timed}
        patience = Patience(lambda _: None, limit_s, starting_s=0)
        text = patience.ask(lambda: self.cluster.log(pod, self.namespace, **options))
        return "" if text.startswith(REMOVED) else text

    def log_stream(self, pod: str, container: str, since: str = "") -> Iterator[bytes]:
        """A container's log from ClusterApi.log_stream. Raises the error that breaks the connection."""
        return self.cluster.log_stream(pod, self.namespace, container, since)

    def _ask(self, call: Callable[[], T]) -> T:
        def renewed() -> T:
            if self.patience.away_since is not None:
                self.__dict__.pop("cluster", None)  # the kubeconfig may have changed
            return call()

        return self.patience.ask(renewed)


def last_state(line: str) -> str:
    """The text that a terminal shows for a line with carriage returns."""
    return next((state for state in reversed(line.split("\r")) if state.strip()), "")


def owner(each: dict[str, Any]) -> str:
    """The uid of an object's owner; empty if it has none."""
    return next((str(entry["uid"]) for entry in each["metadata"].get("ownerReferences") or []), "")


def _name(each: Manifest) -> str:
    return str(each["metadata"]["name"])


@functools.cache
def _by(label: str) -> Callable[[Manifest], str]:
    """Always the same function for a label: informers are shared by a key that contains the function."""
    return lambda each: str(each["metadata"]["labels"][label])


def _about(event: Manifest) -> str:
    return str(event["involvedObject"].get("uid", ""))


JOBSET_UID = "jobset.sigs.k8s.io/jobset-uid"


def api_of(kind: JobKind) -> type[JobApi]:
    """The class that finds the pods of jobs of `kind`."""
    return TrainJobApi if kind is TRAINJOB else JobApi


def of_state(address: ApiAddress, job: Mapping[str, str], show: Callable[[str], None]) -> JobApi:
    """The API of a job from infra.objects.stack_state."""
    kind = NAMES[job["kind"]]
    return api_of(kind)(address, job["namespace"], job["name"], job["uid"], show, kind)


class TrainJobApi(JobApi):
    """As JobApi. It finds pods and events by the JobSet, which has the TrainJob's name."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.jobset = ""

    def pods(self, *, latest: bool = False) -> list[dict[str, Any]]:
        """The job's own pods, without pods of an earlier job of its name."""
        if found := self._pods_of(self.jobset, latest):
            return found
        self.jobset = self._jobset()
        return self._pods_of(self.jobset, latest)

    def leader(self, job: Mapping[str, Any]) -> str:
        return f"{self.name}-{self.kind.container}-0-0-"

    def has_parts(self) -> bool:
        """Whether the job's JobSet exists, or a pod of the last JobSet that this API has found."""
        found = self._jobset()
        self.jobset = found or self.jobset
        return bool(found or self._pods_of(self.jobset, latest=True))

    def suspend(self) -> None:
        """Suspend this job, if it exists: its JobSet then has no pods. Another job of its name stays as it is."""
        # With the uid, the server refuses to change another job of the same name.
        wanted = {"metadata": {"uid": self.uid}, "spec": {"suspend": True}}
        self._ask_unless(OTHERS, lambda: self.cluster.patch(self.kind, self.name, wanted, self.namespace))

    def _pods_of(self, jobset: str, latest: bool) -> list[dict[str, Any]]:
        return self._pods_with(JOBSET_UID, jobset, latest) if jobset else []

    def warnings(self) -> list[dict[str, Any]]:
        """The events of type Warning of the TrainJob, its JobSet and its Jobs. They say why pods cannot be created."""
        jobset = self._jobset()
        makers = [self.uid, *([jobset, *self._jobs_of(jobset)] if jobset else [])]
        return [event for uid in makers for event in self.warnings_about(uid)]

    def _jobset(self) -> str:
        """The uid of this TrainJob's JobSet; empty if there is none."""
        found = self._ask_unless({404}, lambda: self.cluster.get(JOBSET, self.name, self.namespace))
        return str(found["metadata"]["uid"]) if found and owner(found) == self.uid else ""

    def _jobs_of(self, jobset: str) -> list[str]:
        """The uids of the JobSet's Jobs."""
        selector = f"{JOBSET_UID}={jobset}"
        found = self._ask(lambda: self.cluster.listed(JOB, self.namespace, labels=selector))
        return [str(each["metadata"]["uid"]) for each in found]

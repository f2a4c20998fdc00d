"""Follows one job to its end."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from kubernetes.client.exceptions import ApiException

from infra import agreed
from infra.objects.job_kinds import LOCAL_QUEUE
from infra.objects.retry import is_transient
from infra.run import job_status
from infra.run.job_api import JobApi, JobGoneError
from infra.run.job_status import Trouble
from infra.run.log_follower import KEPT_LINES, SHOW_EVERY_S, LogFollower, failure_lines
from infra.run.record import DELETED, Record

# The longest time without a line of log, a report, a changed pod or a changed condition. On one slow core an epoch of
# MNIST takes two minutes; the kubelet may need twenty minutes to pull a large image.
NO_PROGRESS_S = 1800
RUNBOOK = "docs/runbooks/stuck-job.md"
NOT_FOUND = 404
# The errors of os.environ, and of _env_error in torch/distributed/rendezvous.py, about a missing variable.
NO_TORCHRUN = re.compile(
    r"KeyError: '((?:(?:LOCAL|GROUP)_)?(?:RANK|WORLD_SIZE)|MASTER_(?:ADDR|PORT))'"
    r"|environment variable (\w+) expected, but not set"
)
TORCHRUN = "docs/own-project.md#a-script-for-torchrun"
RAN_BEFORE = (job_status.PEER_ENDED, job_status.EVICTED)
"""Reasons of pods whose replicas have run before, and so have a log."""
MOST_READ = 3
"""How many failed containers' logs are read: each takes 10 s if its node is away."""


class RunFailedError(RuntimeError):
    """The training failed. The text has the failing pod's last lines."""


class FailedBeforeError(RunFailedError):
    """The job had already failed when this wait began."""


class NoProgressError(RunFailedError):
    """Nothing about the job has changed for NO_PROGRESS_S seconds."""


class Waiting:
    """One wait for a job: the last state that was seen, and since when it has not changed.

    Parameters:
        epochs: returns the number of epochs of the whole run; None while it is unknown.
        suspended: whether the stack file asks for a suspended job.
        queue: the Kueue queue in which the job waits suspended, without a time limit; empty if the job has no queue.
        record: the record of the job's run; None writes nothing.

    Attributes:
        names: uid -> name of each pod seen, also of deleted pods.
        evicted: uid of a pod -> its eviction, in the order in which we saw them.
        pods: the last state of the job's pods.
    """

    def __init__(
        self,
        api: JobApi,
        *,
        suspended: bool = False,
        queue: str = "",
        epochs: Callable[[], int | None] = lambda: None,
        record: Record | None = None,
    ) -> None:
        self.api, self.suspended, self.queue = api, suspended, queue
        self.record = record or Record(api)
        self.follower = LogFollower(api, epochs, self.record.follow)
        self.pods: list[dict[str, Any]] = []
        self.shown = self.shown_pods = self.shown_progress = ""
        self.progress_at = float("-inf")
        self.trouble_since: dict[str, float] = {}
        self.names: dict[str, str] = {}
        self.evicted: dict[str, Trouble] = {}
        self.end_read: tuple[tuple[str, str, bool], int] | None = None
        self.last_seen: object = None
        self.last_change = time.monotonic()

    def until_end(self) -> str:
        """Wait for the end of the job. Returns the condition that ended it, Succeeded or Suspended.

        Raises RunFailedError within seconds of a failure, FailedBeforeError if it had failed before the wait,
        NoProgressError, JobGoneError, UnreachableError.
        """
        outcome = ""
        try:
            with self.api.following():
                for number, job in enumerate(self.api.observations()):
                    if ended := self._look(job, is_first=number == 0):
                        return ended
        except JobGoneError:
            outcome = DELETED
            raise
        finally:
            self.follower.wait()
            self.record.close(self.pods, outcome)
        raise AssertionError("the job's observations do not end")

    def _look(self, job: dict[str, Any], is_first: bool) -> str:
        """The condition that ended the job; empty if it has not ended. Raises as `until_end` does."""
        now, message = job_status.condition(job)
        self.pods = pods = self.api.pods(latest=now in job_status.ENDS)
        self.follower.find_pod(job, pods)
        found = self._troubles(job, pods)
        self.record.see(job, pods, found)
        self._show_pods(pods)
        self._show(now, found)
        self._show_progress(job)
        if now == job_status.SUCCEEDED or (now == job_status.SUSPENDED and self.suspended):
            return now
        if now == job_status.FAILED:
            error = FailedBeforeError if is_first else RunFailedError
            raise error(self._failure(message, pods, found))
        self._give_up(found, pods)
        self.follower.ensure_started(pods)
        self._ensure_progress(job, pods, found)
        return ""

    def _troubles(self, job: dict[str, Any], pods: list[dict[str, Any]]) -> list[Trouble]:
        found = [each for each in job_status.troubles(pods) if each.reason != job_status.EVICTED]
        found += [
            *job_status.stranded(job, pods),
            *self._evictions(job, pods),
            *self._wrong_architecture(pods),
        ]
        for pod in filter(job_status.waits_on_node, pods):
            found += job_status.start_troubles(pod, self.api.warnings_about(pod["metadata"]["uid"]))
        if len(pods) < job_status.wanted_pods(job) and job_status.condition(job)[0] not in job_status.ENDED:
            found += job_status.refusals(self.api.name, self.api.warnings())
        return found + (queue_troubles(self.api, self.queue) if self._is_queued(job) else [])

    def _evictions(self, job: dict[str, Any], pods: list[dict[str, Any]]) -> list[Trouble]:
        """Evictions of existing pods, and the last eviction, whose pod the operator replaces within a second."""
        there = {pod["metadata"]["uid"]: pod for pod in pods}
        self.names |= {uid: pod["metadata"]["name"] for uid, pod in there.items()}
        for uid, name in self.names.items():
            if uid in self.evicted:
                continue
            if uid in there:
                end = job_status.pod_end(there[uid])
            else:
                end = job_status.eviction(name, self.api.warnings_about(uid))
            if end and end.reason == job_status.EVICTED:
                self.evicted[uid] = end
        if not self.evicted:
            return []
        *earlier, last = self.evicted
        counted = job_status.counted(self.evicted[last], len(self.evicted), job)
        return [*(self.evicted[uid] for uid in earlier if uid in there), counted]

    def _is_queued(self, job: dict[str, Any]) -> bool:
        return bool(self.queue) and job_status.condition(job)[0] == job_status.SUSPENDED

    def _wrong_architecture(self, pods: list[dict[str, Any]]) -> list[Trouble]:
        """Search the failed container's log for a wrong processor. Each failure's log is read until it has lines."""
        end = next(iter(job_status.failed_containers(pods)), None)
        if end is None or (end, job_status.restarts(pods)) == self.end_read:
            return []
        lines = self.api.last_lines(*end)
        if lines:
            self.end_read = (end, job_status.restarts(pods))
        if any(text in line for line in lines for text in job_status.OTHER_PROCESSOR):
            return [job_status.wrong_architecture(end[0], end[1])]
        return []

    def _show(self, now: str, found: list[Trouble]) -> None:
        by_others = now == job_status.SUSPENDED and not self.suspended
        why = "though the stack file does not ask for it"
        if self.queue:
            why = f"queued in {self.queue} until Kueue admits it"
        text = f"{now}, {why}" if by_others else now
        line = "; ".join([f"{self.api.name}: {text}", *(str(each) for each in found)])
        if line != self.shown:
            self.api.show(line)
            self.shown = line

    def _show_progress(self, job: dict[str, Any]) -> None:
        """Show the progress that the job reports, as seldom as the log's lines about steps."""
        said = agreed.progress(job)
        if said in ("", self.shown_progress) or time.monotonic() - self.progress_at < SHOW_EVERY_S:
            return
        self.api.show(f"{self.api.name}: {said}")
        self.shown_progress, self.progress_at = said, time.monotonic()

    def _show_pods(self, pods: list[dict[str, Any]]) -> None:
        states = ", ".join(f"{each['metadata']['name']} {job_status.pod_state(each)}" for each in pods)
        if states and states != self.shown_pods:
            self.api.show(f"{self.api.name}: pods: {states}")
        self.shown_pods = states

    def _give_up(self, found: list[Trouble], pods: list[dict[str, Any]]) -> None:
        """Raises RunFailedError for a pod that will never start or never end."""
        now = time.monotonic()
        lasting = [(each, each.limit_s) for each in found if each.limit_s is not None]
        self.trouble_since = {each.about: self.trouble_since.get(each.about, now) for each, _ in lasting}
        for each, limit_s in lasting:
            if not limit_s or now - self.trouble_since[each.about] > limit_s:
                lines = self._last_lines(pods) if each.reason in RAN_BEFORE else []
                raise RunFailedError("\n".join([f"{self.api.title} cannot run: {each}", *lines, self._again]))

    def _ensure_progress(self, job: dict[str, Any], pods: list[dict[str, Any]], found: list[Trouble]) -> None:
        """Raises NoProgressError. A job that waits in a working queue needs no progress: the queue may be long."""
        known = job.get("status", {})
        states = [each.get("status") for each in pods]
        counts = known.get("replicaStatuses") or known.get("jobsStatus")
        seen = (known.get("conditions"), counts, known.get("trainerStatus"), states, self.follower.seen)
        now = time.monotonic()
        if seen != self.last_seen or (self._is_queued(job) and not found):
            self.last_seen, self.last_change = seen, now
        elif now - self.last_change >= NO_PROGRESS_S:
            reason = "; ".join(str(each) for each in found) or f"condition {job_status.condition(job)[0]}"
            minutes = NO_PROGRESS_S // 60
            raise NoProgressError(
                f"{self.api.title}: no progress for {minutes} minutes: {reason}\n"
                f"  The job stays unchanged. {RUNBOOK} says where to look.\n{self._again}"
            )

    def _failure(self, message: str, pods: list[dict[str, Any]], found: list[Trouble]) -> str:
        """The operator's message, the troubles, the failed container's last lines, and how to try again.

        If the operator has deleted the failed job's pods, the followed lines of rank 0 are shown instead.
        """
        troubles = [f"  {each}" for each in found]
        lines = self._last_lines(pods)
        return "\n".join([f"{self.api.title} failed: {message}", *troubles, *lines, self._again])

    def _last_lines(self, pods: list[dict[str, Any]]) -> list[str]:
        """The last lines of the first failed container that has a log, else of rank 0; a sentence if there are none."""
        rank0 = (self.follower.pod, self.api.kind.container, False)
        for pod, container, previous in [*job_status.failed_containers(pods)[:MOST_READ], rank0]:
            if lines := self.api.last_lines(pod, container, previous, KEPT_LINES):
                return _titled(pod, container, lines)
        if self.follower.latest:
            return _titled(*rank0[:2], self.follower.latest)
        return [
            "  no log can be read now, and none was read while the pods ran: the log of a deleted pod is lost"
        ]

    @property
    def _again(self) -> str:
        delete = f"kubectl -n {self.api.namespace} delete {self.api.kind.kind.lower()} {self.api.name}"
        return (
            "  fix: correct the cause, then run `make up`, which replaces a changed job and a failed job. "
            f"To restart an unchanged job that has not failed, first run `{delete}`"
        )


def _titled(pod: str, container: str, lines: Iterable[str]) -> list[str]:
    last = failure_lines([*lines])
    shown = [f"    {line}" for line in last]
    if missing := NO_TORCHRUN.search("\n".join(last)):
        shown.append(
            f"  {missing[1] or missing[2]} is a variable that torchrun sets: write `command: [torchrun, SCRIPT]`, "
            f"without python3; see {TORCHRUN}"
        )
    return [f"last lines of pod {pod}, container {container}:", *shown]


def queue_troubles(api: JobApi, queue: str) -> list[Trouble]:
    """A trouble if the LocalQueue is missing, so that the job is never admitted; none if the server cannot be asked."""
    if has_queue(api, queue):
        return []
    message = f"namespace {api.namespace} has no LocalQueue of this name, so the job is never admitted"
    return [Trouble(f"queue {queue}", "NoSuchQueue", message)]


def has_queue(api: JobApi, queue: str) -> bool:
    """Whether the job's namespace has this LocalQueue. Also True if the user may not read it, or no server answers."""
    try:
        version = api.cluster.preferred_version(LOCAL_QUEUE.group)
        api.cluster.get(replace(LOCAL_QUEUE, version=version), queue, api.namespace)
    except ApiException as error:
        return bool(error.status != NOT_FOUND)
    except Exception as error:
        if not is_transient(error):
            raise
    return True

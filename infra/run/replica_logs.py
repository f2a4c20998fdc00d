"""The logs of a job's replicas: the end of each, over all its starts, and how each start has ended."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kubernetes.client.exceptions import ApiException

from infra.objects.job_kinds import TRAINJOB
from infra.objects.patience import FORBIDDEN, UnreachableError, brief
from infra.run import job_status
from infra.run.job_api import LOG_PATIENCE_S, JobApi
from infra.run.log_follower import LogLine, log_lines

LOG_BYTES = 256 * 1024
"""How much of a replica's log is kept: the end."""
LOG_LINES = 2000
"""How many lines of one start's log are read for that."""
HEAD = "== "
"""Before each line of ours; a container's own lines begin with a time."""
CUT = f"{HEAD}earlier lines are not kept ==\n"
GENERATED = re.compile(r"-[a-z0-9]{5}$")
"""What JobSet adds to the name of each start's pod."""


class ReplicaLogs:
    """The logs of one job's replicas, read when their containers end: pods and nodes soon forget them.

    Parameters:
        told: gets the name of a pod and each line of its log.
        say: gets a sentence where a log cannot be read.
    """

    def __init__(self, api: JobApi, told: Callable[[str, LogLine], None], say: Callable[[str], None]) -> None:
        self.api, self.told, self.say = api, told, say
        self.starts: dict[str, dict[str, str]] = {}
        self._read: set[object] = set()
        self._silent: set[str] = set()

    def replica(self, pod: str) -> str:
        """The name of a pod's replica: it has another pod for each start under JobSet."""
        return GENERATED.sub("", pod) if self.api.kind is TRAINJOB else pod

    def add(self, replica: str, text: str) -> None:
        """Add what an earlier wait has kept of a replica's log."""
        parts = re.split(rf"(?m)^(?={HEAD}pod )", text)
        self.starts[replica] = {part.partition("\n")[0]: part.partition("\n")[2] for part in parts if part}

    def read(self, pods: list[dict[str, Any]], *, is_last: bool = False) -> None:
        """Read what of `pods` has ended, or is about to, since the last time.

        Parameters:
            is_last: whether nobody reads again: also what runs is read, and what could not be read before.
        """
        if is_last:
            self._silent.clear()
        for pod in pods:
            for container, number, previous, end in self._ends(pod, is_last):
                key = (pod["metadata"].get("uid"), container, number, bool(end))
                limit_s = LOG_PATIENCE_S if is_last else 0
                if key not in self._read and self._keep(pod, container, number, previous, end, limit_s):
                    self._read.add(key)

    def texts(self) -> dict[str, str]:
        """Replica -> its log, at most LOG_BYTES of it."""
        return {replica: _joined(starts) for replica, starts in self.starts.items()}

    def _ends(self, pod: Mapping[str, Any], is_last: bool) -> Iterator[tuple[str, int, bool, str]]:
        """Container, number of its start, whether that was the one before, and how it has ended; empty for not yet."""
        whole = job_status.pod_end(pod)
        found = job_status.containers(pod.get("status", {}))
        for each in found:
            now, before = ((each.get(key) or {}) for key in ("state", "lastState"))
            number = int(each.get("restartCount", 0))
            for state, start, previous in ((before, number - 1, True), (now, number, False)):
                end = state.get("terminated")
                if end and (each["name"] == self.api.kind.container or end.get("exitCode")):
                    said = f"{end.get('reason') or 'ended'}, exit code {end.get('exitCode', 0)}"
                    yield each["name"], start, previous, f"{said}: {whole}" if whole else said
            if "running" in now and (is_last or pod["metadata"].get("deletionTimestamp")):
                yield each["name"], number, False, ""
        if whole and not any((each.get("state") or {}).get("terminated") for each in found):
            yield self.api.kind.container, 0, False, str(whole)

    def _keep(
        self, pod: Mapping[str, Any], container: str, number: int, previous: bool, end: str, limit_s: float
    ) -> bool:
        """Whether this start needs not be read again."""
        metadata = pod["metadata"]
        name, node = metadata["name"], (pod.get("spec") or {}).get("nodeName", "")
        if node in self._silent:
            return False
        try:
            text = self.api.timed_log(name, container, previous, LOG_LINES, limit_s)
        except UnreachableError:
            self._silent.add(node)
            return False
        except ApiException as error:
            text = ""
            if error.status == FORBIDDEN:
                self.say(f"the logs of its pods are not kept: {brief(error)}")
        lines = [*log_lines([text.encode()])] if text else []
        for line in lines:
            self.told(name, line)
        created = metadata.get("creationTimestamp") or metadata.get("uid")
        head = f"{HEAD}pod {name} of {created}, container {container}, start {number + 1} =="
        body = "".join(f"{line.at} {line.text}\n" for line in lines)
        last = f"{HEAD}{end or 'it was running when this was read'} ==\n"
        kept = self.starts.setdefault(self.replica(name), {})
        if body or head not in kept:
            kept[head] = body + last
        return True


def _joined(starts: Mapping[str, str]) -> str:
    text = "".join(f"{head}\n{body}" for head, body in starts.items())
    if len(text.encode()) <= LOG_BYTES:
        return text
    end = text.encode()[len(CUT) - LOG_BYTES :].partition(b"\n")[2]
    return CUT + end.decode(errors="replace")

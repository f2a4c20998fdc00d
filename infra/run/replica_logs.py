"""The logs of a job's replicas: the end of each log, over all starts, and how each start ended."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kubernetes.client.exceptions import ApiException

from infra.objects.job_kinds import TRAINJOB
from infra.objects.kinds import is_leaving
from infra.objects.retry import FORBIDDEN, UnreachableError, brief
from infra.run import job_status
from infra.run.job_api import LOG_PATIENCE_S, JobApi
from infra.run.log_follower import LogLine, log_lines

LOG_BYTES = 256 * 1024
"""How many bytes of a replica's log are kept: the last ones."""
LOG_LINES = 2000
"""How many lines of one start's log are read."""
HEAD = "== "
"""Begins each line of ours. A container's own lines begin with a time."""
CUT = f"{HEAD}earlier lines are not kept ==\n"
MOST_SILENT = 3
"""After this many nodes that do not answer, no further log is read: each call may take a minute."""
GENERATED = re.compile(r"-[a-z0-9]{5}$")
"""The suffix that JobSet adds to the name of each start's pod."""


@dataclass(frozen=True)
class _Start:
    """A start of a container. `previous`: whether a later start exists. `end`: how it ended; empty if it runs."""

    container: str
    number: int
    previous: bool
    begun: object
    end: str = ""


class ReplicaLogs:
    """The logs of one job's replicas, read when their containers end: pods and nodes soon forget them.

    Parameters:
        told: gets the name of a pod and each line of its log.
        followed: returns the lines of a pod's log that were followed; empty for most pods.
        say: gets a sentence if a log cannot be read.
    """

    def __init__(
        self,
        api: JobApi,
        told: Callable[[str, LogLine], None],
        followed: Callable[[str], list[LogLine]],
        say: Callable[[str], None],
    ) -> None:
        self.api, self.told, self.followed, self.say = api, told, followed, say
        self.starts: dict[str, dict[str, str]] = {}
        self._read: set[object] = set()
        self._silent: set[str] = set()

    def replica(self, pod: str) -> str:
        """The name of a pod's replica. With JobSet, a replica has another pod for each start."""
        return GENERATED.sub("", pod) if self.api.kind is TRAINJOB else pod

    def add(self, replica: str, text: str) -> None:
        """Add `text`, the log of `replica` as an earlier wait has written it."""
        parts = re.split(rf"(?m)^(?={HEAD}pod )", text)
        self.starts[replica] = {part.partition("\n")[0]: part.partition("\n")[2] for part in parts if part}

    def read(self, pods: list[dict[str, Any]], *, is_last: bool = False) -> None:
        """Read the logs of containers of `pods` that have ended since the last call, or are about to end.

        Parameters:
            is_last: whether this is the last call: then also read running containers, and logs that are still unread.
        """
        if is_last:
            self._silent.clear()
        for pod in pods:
            for start in self._starts(pod, is_last):
                key = (pod["metadata"].get("uid"), start.container, start.number, bool(start.end))
                if key not in self._read and self._keep(pod, start, is_last):
                    self._read.add(key)

    def texts(self) -> dict[str, str]:
        """Replica -> its log, at most LOG_BYTES of it."""
        return {replica: _joined(starts) for replica, starts in self.starts.items()}

    def _starts(self, pod: Mapping[str, Any], is_last: bool) -> Iterator[_Start]:
        whole = job_status.pod_end(pod)
        found = job_status.containers(pod.get("status", {}))
        for each in found:
            name, number = each["name"], int(each.get("restartCount", 0))
            now, before = ((each.get(key) or {}) for key in ("state", "lastState"))
            for state, place, previous in ((before, number - 1, True), (now, number, False)):
                end = state.get("terminated")
                if end and (name == self.api.kind.container or end.get("exitCode")):
                    said = f"{end.get('reason') or 'ended'}, exit code {end.get('exitCode', 0)}"
                    said = f"{said}: {whole}" if whole else said
                    yield _Start(name, place, previous, end.get("startedAt"), said)
            if "running" in now and (is_last or is_leaving(pod)):
                yield _Start(name, number, False, (now["running"] or {}).get("startedAt"))
        if whole and not any((each.get("state") or {}).get("terminated") for each in found):
            yield _Start(self.api.kind.container, 0, False, None, str(whole))

    def _keep(self, pod: Mapping[str, Any], start: _Start, is_last: bool) -> bool:
        """Read and keep the log of one start. Returns False if it has to be read again later."""
        metadata = pod["metadata"]
        name, node = metadata["name"], (pod.get("spec") or {}).get("nodeName", "")
        text, is_away = "", self._is_away(node)
        try:
            if not is_away:
                limit_s = LOG_PATIENCE_S if is_last else 0
                text = self.api.read_log(
                    name, start.container, start.previous, LOG_LINES, limit_s, timed=True
                )
        except UnreachableError:
            self._silent.add(node)
            is_away = True
        except ApiException as error:
            if error.status == FORBIDDEN:
                self.say(f"the logs of its pods cannot be read: {brief(error)}")
        if is_away and not is_last:
            return False
        lines = [*log_lines([text.encode()])] if text else []
        for line in lines:
            self.told(name, line)
        if start.container == self.api.kind.container and not start.previous:
            lines = [*_before(lines, self.followed(name), start.begun), *lines]
        created = metadata.get("creationTimestamp") or metadata.get("uid")
        head = f"{HEAD}pod {name} of {created}, container {start.container}, start {start.number + 1} =="
        body = "".join(f"{line.at} {line.text}\n" for line in lines)
        last = f"{HEAD}{start.end or 'it was running when this log was read'} ==\n"
        kept = self.starts.setdefault(self.replica(name), {})
        if body or head not in kept:
            kept[head] = body + last
        return True

    def _is_away(self, node: str) -> bool:
        """Whether to skip this node's logs, because the node or the API server does not answer."""
        given_up = self.api.patience.away_since is not None
        return given_up or node in self._silent or len(self._silent) >= MOST_SILENT


def _before(lines: list[LogLine], followed: list[LogLine], begun: object) -> list[LogLine]:
    """The lines of `followed` that the node no longer has, because it rotated the log or deleted the pod.

    Parameters:
        begun: when the start began, to a second; without it, no lines.
    """
    if not begun:
        return []
    first = datetime.fromisoformat(str(begun))
    until = next((line.time for line in lines if line.time), None)
    return [
        line for line in followed if line.time and first <= line.time and (not until or line.time < until)
    ]


def _joined(starts: Mapping[str, str]) -> str:
    text = "".join(f"{head}\n{body}" for head, body in starts.items())
    if len(text.encode()) <= LOG_BYTES:
        return text
    end = text.encode()[len(CUT) - LOG_BYTES :].partition(b"\n")[2]
    return CUT + end.decode(errors="replace")

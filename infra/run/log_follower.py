"""Shows the log of rank 0 as it is written."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import urllib3
from kubernetes.client.exceptions import ApiException

from infra.run import status
from infra.run.job_api import LAST_LINES, Run
from infra.run.metrics import is_progress, metrics

SHOW_EVERY_S = 5.0
# How long the end of the log may lag behind the end of the job.
LAG_S = 2


class Follower:
    """Shows rank 0's log as it is written, steps at most every SHOW_EVERY_S seconds."""

    def __init__(self, run: Run, pod: str) -> None:
        self.run, self.pod = run, pod
        self.thread: threading.Thread | None = None
        self.broken = False
        self.latest: deque[str] = deque(maxlen=LAST_LINES)
        self.start: tuple[str, int] | None = None
        self.seen = 0

    def ensure_started(self, pods: list[dict[str, Any]]) -> None:
        """Follow each start of the container once; where the connection broke, go on after the lines seen."""
        for pod in pods:
            if pod["metadata"]["name"] != self.pod or pod.get("status", {}).get("phase") != "Running":
                continue
            start = (pod["metadata"]["uid"], status.restarts([pod]))
            if start != self.start:
                self.start, self.seen = start, 0
            elif self.thread is not None and (self.thread.is_alive() or not self.broken):
                continue
            self.broken = False
            self.thread = threading.Thread(target=self._follow, daemon=True)
            self.thread.start()

    def _follow(self) -> None:
        try:
            answer: Any = self.run.core.read_namespaced_pod_log(
                self.pod, self.run.namespace, container="pytorch", follow=True, _preload_content=False
            )
            last = 0.0
            for number, line in enumerate(_lines(answer.stream(decode_content=True)), start=1):
                now = time.monotonic()
                self.latest.append(line)
                if number > self.seen and (not is_progress(line) or now - last >= SHOW_EVERY_S):
                    self.run.show(f"{self.run.name}: {line}")
                    last = now if is_progress(line) else last
                self.seen = max(self.seen, number)
        except (ApiException, urllib3.exceptions.HTTPError):
            self.broken = True

    def finish(self) -> dict[str, Any]:
        """The metrics from the whole log; None where the trainer printed none."""
        if self.thread:
            self.thread.join(timeout=LAG_S)
        lines = self.run.last_lines(self.pod, "pytorch", lines=1000)
        found = metrics(lines)
        return {"accuracy": found.get("accuracy"), "loss": found.get("loss")}


def _lines(chunks: Iterator[bytes]) -> Iterator[str]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.decode(errors="replace")
    if rest:
        yield rest.decode(errors="replace")

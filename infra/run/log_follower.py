"""Shows the log of rank 0 as it is written."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from kubernetes.client.exceptions import ApiException

from infra import agreed
from infra.objects.cluster_api import lines
from infra.objects.patience import is_transient
from infra.run import job_status
from infra.run.job_api import LAST_LINES, JobApi
from infra.run.metrics import is_progress

SHOW_EVERY_S = 5.0
# How long the end of the log may lag behind the end of the job.
LAG_S = 2


class LogFollower:
    """Shows rank 0's log as it is written, steps at most every SHOW_EVERY_S seconds.

    Parameters:
        rank0: name of rank 0's pod; what its names begin with where it ends in -, as each start has another name.
        epochs: of the whole run; None while nobody knows.

    Attributes:
        pod: the name of the latest pod of rank 0.
        latest: the last lines followed; all that is left of the log once the pod is deleted.
        seen: lines followed since the container's last start.
    """

    def __init__(self, api: JobApi, rank0: str, epochs: Callable[[], int | None] = lambda: None) -> None:
        self.api, self.rank0, self.pod, self.epochs = api, rank0, rank0, epochs
        # Set by whoever draws the progress. The first line of an epoch is shown then.
        self.drawn_every = os.environ.get(agreed.DRAWN_EVERY_S)
        self.last_step = ("", float("-inf"))
        self.told_epochs: int | None = None
        self.thread: threading.Thread | None = None
        self.broken = False
        self.latest: deque[str] = deque(maxlen=LAST_LINES)
        self.start: tuple[str, int] | None = None
        self.seen = 0

    def find_pod(self, pods: list[dict[str, Any]]) -> None:
        """Look for rank 0 among `pods`, whatever its phase."""
        if self.rank0.endswith("-"):
            own = [each for each in pods if each["metadata"]["name"].startswith(self.rank0)]
            latest = max(own, key=lambda each: str(each["metadata"]["creationTimestamp"]), default=None)
            self.pod = latest["metadata"]["name"] if latest else self.pod

    def ensure_started(self, pods: list[dict[str, Any]]) -> None:
        """Follow each start of the container once; where the connection broke, go on after the lines seen."""
        for pod in pods:
            if pod["metadata"]["name"] != self.pod or pod.get("status", {}).get("phase") != "Running":
                continue
            start = (pod["metadata"]["uid"], job_status.restarts([pod]))
            if start != self.start:
                self.start, self.seen = start, 0
            elif self.thread is not None and (self.thread.is_alive() or not self.broken):
                continue
            self.broken = False
            self.thread = threading.Thread(target=self._follow, daemon=True)
            self.thread.start()

    def _follow(self) -> None:
        try:
            stream = self.api.log_stream(self.pod, self.api.kind.container)
            for number, line in enumerate(lines(stream), start=1):
                self.latest.append(line)
                if number > self.seen:
                    self._show(line)
                self.seen = max(self.seen, number)
        except Exception as error:
            self.broken = True
            if not is_transient(error) and not isinstance(error, ApiException):
                raise

    def _show(self, line: str) -> None:
        if is_progress(line):
            if not self._is_due(line):
                return
            if self.told_epochs is None and (count := self.epochs()):
                self.told_epochs = count
                self.api.show(f"{self.api.name}: {count} epochs")
        self.api.show(f"{self.api.name}: {line}")

    def _is_due(self, line: str) -> bool:
        """Whether enough time has passed since the last line about a step that was shown."""
        epoch, now = line.partition("[")[0], time.monotonic()
        shown_epoch, shown = self.last_step
        begins = self.drawn_every is not None and epoch != shown_epoch
        if not begins and now - shown < float(self.drawn_every or SHOW_EVERY_S):
            return False
        self.last_step = (epoch, now)
        return True

    def finish(self) -> list[str]:
        """The last lines of the pod's log; empty where it is gone."""
        if self.thread:
            self.thread.join(timeout=LAG_S)
        return self.api.last_lines(self.pod, self.api.kind.container, lines=1000)

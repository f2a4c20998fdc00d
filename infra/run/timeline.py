"""The events of a job and its pods, with their times, from the API server while we wait for the job."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from infra.run import job_status

Entry = tuple[str, str, str]
"""The time in RFC 3339, the object, and what happened."""


class Timeline:
    """Collects entries from each version of the objects.

    Pods are deleted, and the status of a container has only its last end.
    """

    def __init__(self) -> None:
        self.found: set[Entry] = set()

    def see(self, job: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]) -> None:
        """Add the state of `job` and `pods`."""
        name = f"job {job['metadata'].get('name', '')}".strip()
        for condition in (job.get("status") or {}).get("conditions") or []:
            # A condition that no longer holds is left out: it still has the time of its begin, and no time of its end.
            if condition.get("status") == "True":
                self._add(condition.get("lastTransitionTime"), name, condition.get("type"))
        self._progress(name, (job.get("status") or {}).get("trainerStatus") or {})
        for pod in pods:
            self._pod(pod)

    def entries(self) -> list[Entry]:
        """All entries, in the order of time."""
        return sorted(self.found)

    def add(self, text: str) -> None:
        """Add the entries of an earlier wait. A broken file is ignored."""
        with suppress(ValueError, TypeError):
            self.found |= {(at, about, what) for at, about, what in json.loads(text)}

    def _progress(self, name: str, told: Mapping[str, Any]) -> None:
        """Add each tenth of a TrainJob's progress once, when its program first reports it."""
        if (percentage := told.get("progressPercentage")) is None:
            return
        what = f"{percentage // 10 * 10} % done"
        if what not in {known for _, about, known in self.found if about == name}:
            self._add(told.get("lastUpdatedTime"), name, what)

    def _pod(self, pod: Mapping[str, Any]) -> None:
        about = f"pod {pod['metadata']['name']}"
        self._add(pod["metadata"].get("creationTimestamp"), about, "created")
        self._add(pod["metadata"].get("deletionTimestamp"), about, "deleted")
        status = pod.get("status") or {}
        for condition in status.get("conditions") or []:
            if condition.get("type") == "PodScheduled" and condition.get("status") == "True":
                self._add(condition.get("lastTransitionTime"), about, "scheduled")
        if end := job_status.pod_end(pod):
            self._add(job_status.last_end(status), about, f"failed: {end.reason}: {end.message}")
        for container in job_status.containers(status):
            for key in ("lastState", "state"):
                self._state(f"{about}, container {container['name']}", container.get(key) or {})

    def _state(self, about: str, state: Mapping[str, Any]) -> None:
        if running := state.get("running"):
            self._add(running.get("startedAt"), about, "started")
        if end := state.get("terminated"):
            reason = end.get("reason") or "ended"
            self._add(end.get("startedAt"), about, "started")
            self._add(end.get("finishedAt"), about, f"ended: {reason}, exit code {end.get('exitCode', 0)}")

    def _add(self, at: object, about: str, what: object) -> None:
        if at and what:
            self.found.add((str(at).replace("+00:00", "Z"), about, str(what)))

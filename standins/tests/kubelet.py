"""Plays scheduler and kubelet for pods of an API server that has neither.

A pod's annotation `test/outcome` says what becomes of it: `run` (default for restartPolicy Always), `succeed`
(default for the others), `fail`, `crash`, `pull` (its image cannot be pulled), `unschedulable`, `init` (an init
container never ends).
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from pulumi_standins.kubernetes.api_client import ApiClient
from pulumi_standins.kubernetes.errors import ApiError, CancelledError, UnreachableError
from pulumi_standins.kubernetes.follow import follow
from pulumi_standins.kubernetes.objects import Kind, annotation, name_of, namespace_of, nested

from standins.tests.kubelet_logs import KubeletLogs
from standins.tests.samples import MERGE_PATCH

POD = Kind("", "v1", "Pod")
NODE = "node"


def _conditions(**states: str) -> list[dict[str, str]]:
    return [{"type": name, "status": status} for name, status in states.items()]


def _containers(pod: dict[str, Any], state: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    return [
        {
            "name": c["name"],
            "image": c["image"],
            "imageID": "",
            "restartCount": 0,
            "ready": False,
            "state": state,
            **more,
        }
        for c in pod["spec"]["containers"]
    ]


def _not_ready(pod: dict[str, Any]) -> list[dict[str, str]]:
    names = " ".join(c["name"] for c in pod["spec"]["containers"])
    unready = {"reason": "ContainersNotReady", "message": f"containers with unready status: [{names}]"}
    return [
        *_conditions(PodScheduled="True", Initialized="True"),
        {"type": "Ready", "status": "False", **unready},
    ]


def status_of(pod: dict[str, Any]) -> dict[str, Any]:
    """The status that the pod ends up with."""
    outcome = annotation(pod, "test/outcome")
    if not outcome:
        outcome = "run" if pod["spec"].get("restartPolicy", "Always") == "Always" else "succeed"
    ready = _conditions(PodScheduled="True", Initialized="True", Ready="True", ContainersReady="True")
    number = int(time.time() * 1000) % 60000
    address = f"10.244.{number // 250}.{number % 250 + 1}"
    started = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
    if outcome == "run":
        return {
            **started,
            "conditions": ready,
            "containerStatuses": _containers(pod, {"running": {}}, ready=True),
        }
    if outcome in ("succeed", "fail"):
        code = 0 if outcome == "succeed" else 1
        reason = "Completed" if code == 0 else "Error"
        ended = _containers(pod, {"terminated": {"exitCode": code, "reason": reason}})
        phase = "Succeeded" if code == 0 else "Failed"
        return {"phase": phase, "conditions": _not_ready(pod), "containerStatuses": ended}
    if outcome == "crash":
        waiting = {
            "waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}
        }
        last = {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2026-01-01T00:00:00Z"}}
        crashed = _containers(pod, waiting, lastState=last)
        return {**started, "conditions": _not_ready(pod), "containerStatuses": crashed}
    if outcome == "pull":
        waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}
        return {
            "phase": "Pending",
            "conditions": _not_ready(pod),
            "containerStatuses": _containers(pod, waiting),
        }
    if outcome == "unschedulable":
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
        }
        return {"phase": "Pending", "conditions": [condition]}
    if outcome == "init":
        first = pod["spec"]["initContainers"][0]
        initialising = {
            "name": first["name"],
            "image": first["image"],
            "imageID": "",
            "restartCount": 0,
            "ready": False,
        }
        waiting = {"waiting": {"reason": "PodInitializing"}}
        unready = {"type": "Initialized", "status": "False", "reason": "ContainersNotInitialized"}
        unready["message"] = f"containers with incomplete status: [{first['name']}]"
        return {
            "phase": "Pending",
            "conditions": [*_conditions(PodScheduled="True"), unready],
            "initContainerStatuses": [{**initialising, "state": {"running": {}}}],
            "containerStatuses": _containers(pod, waiting),
        }
    raise ValueError(f"no such outcome: {outcome}")


class Kubelet:
    """Gives every pod of a cluster its status, shortly after it appears, and lets deleted ones go.

    Parameters:
        certificates: the folder of the API server's own.
    """

    def __init__(self, client: ApiClient, certificates: Path) -> None:
        self._client = client
        self._logs = KubeletLogs(certificates)
        self._stopped = threading.Event()
        self._streams: list[Any] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Make the node and begin in the background."""
        self._logs.start()
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
        self._client.create(node)
        # New nodes are tainted until their kubelet reports.
        no_taints = {"spec": {"taints": None}}
        path = f"/api/v1/nodes/{NODE}"
        self._client.transport.request("PATCH", path, body=no_taints, content_type=MERGE_PATCH)
        status = {"status": self._logs.status}
        self._client.transport.request("PATCH", f"{path}/status", body=status, content_type=MERGE_PATCH)
        self._thread.start()

    def stop(self) -> None:
        """End at once."""
        self._stopped.set()
        for stream in self._streams:
            stream.close()
        self._thread.join(timeout=5)
        self._logs.stop()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._follow()
            except CancelledError:
                return
            except (
                ApiError,
                UnreachableError,
            ):  # a test restarts the server, which refuses everybody at first
                time.sleep(0.2)

    def _follow(self) -> None:
        for event, pod in follow(
            _Everywhere(self._client),  # type: ignore[arg-type]
            POD,
            "",
            until=time.monotonic() + 3600,
            cancelled=self._stopped,
            on_stream=self._streams.append,
        ):
            if event != "DELETED" and not self._stopped.is_set():
                self._treat(pod)

    def _treat(self, pod: dict[str, Any]) -> None:
        path = f"/api/v1/namespaces/{namespace_of(pod)}/pods/{name_of(pod)}"
        try:
            if nested(pod, "metadata", "deletionTimestamp"):
                # By now another pod may have the name.
                body = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
                self._client.transport.request("DELETE", path, body=body)
            elif nested(pod, "status", "phase") == "Pending" and not nested(pod, "status", "conditions"):
                status = {"status": status_of(pod)}
                if status["status"]["conditions"][0]["status"] == "True":
                    self._bind(pod, path)
                self._client.transport.request(
                    "PATCH", f"{path}/status", body=status, content_type=MERGE_PATCH
                )
        except ApiError as error:
            if error.code not in (404, 409):
                raise

    def _bind(self, pod: dict[str, Any], path: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name_of(pod)},
            "target": target,
        }
        if not nested(pod, "spec", "nodeName"):
            self._client.transport.request("POST", f"{path}/binding", body=binding)


class _Everywhere:
    """The cluster, with collections of all namespaces."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    def list(self, _kind: Kind, _namespace: str, **query: str) -> Any:
        return self._client.transport.request("GET", "/api/v1/pods", query=query)

    def watch(self, _kind: Kind, _namespace: str, *, seconds: float, **query: str) -> Any:
        options = {"watch": "true", "timeoutSeconds": str(int(seconds)), **query}
        return self._client.transport.stream("/api/v1/pods", options, seconds=seconds + 5)

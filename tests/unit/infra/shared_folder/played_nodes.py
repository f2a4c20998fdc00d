"""Nodes with folders, and the pods of a probe on them, as the Kubernetes API would tell of them."""

from __future__ import annotations

from typing import Any

from infra.objects.cluster_api import path
from infra.objects.kinds import NODE, POD
from tests.unit.infra.objects.played_api import Request, listed

EXIT_CODES = {"Succeeded": 0, "Failed": 1}


def node(name: str, *taints: dict[str, str], labels: dict[str, str] | None = None, **spec: Any) -> Any:
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": {"taints": list(taints), **spec}}


def node_of(pod: dict[str, Any]) -> str:
    rule = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return str(rule["nodeSelectorTerms"][0]["matchFields"][0]["values"][0])


class PlayedNodes:
    """The API of their cluster.

    Parameters:
        nodes: those of the cluster.
        folders: name of a node -> what it sees where the volume's folder is, by default one for all.
        broken: name of a node -> the status of whatever pod comes to it.
    """

    def __init__(
        self, nodes: list[Any], folders: dict[str, str] | None = None, broken: dict[str, Any] | None = None
    ) -> None:
        self.nodes, self.folders, self.broken = nodes, folders or {}, broken or {}
        self.pods: dict[str, dict[str, Any]] = {}
        self.created: list[dict[str, Any]] = []
        self.files: set[tuple[str, str]] = set()

    def __call__(self, request: Request) -> object:
        if request.path == path(NODE):
            return listed(*self.nodes)
        if request.method == "POST":
            return self.create(request.path, request.body)
        if request.method == "DELETE":
            return 404 if self.pods.pop(request.name, None) is None else {}
        return self.live()

    def live(self) -> object:
        """The pods that are there."""
        return listed(*self.pods.values())

    def create(self, place: str, pod: dict[str, Any]) -> object:
        """Take a pod, whose container runs at once."""
        assert place == path(POD, pod["metadata"]["namespace"])
        self.created.append(pod)
        self.pods[pod["metadata"]["name"]] = {**pod, "status": self._status(pod)}
        return pod

    def _status(self, pod: dict[str, Any]) -> dict[str, Any]:
        place = node_of(pod)
        if place in self.broken:
            return dict(self.broken[place])
        (container,) = pod["spec"]["containers"]
        seen = (self.folders.get(place, "one"), container["command"][4])
        if not container["volumeMounts"][0]["readOnly"]:
            self.files.add(seen)
            return {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        return ended("Succeeded" if seen in self.files else "Failed")


def ended(phase: str, code: int | None = None, message: str = "") -> dict[str, Any]:
    """The status of a pod whose container has ended."""
    exit_code = EXIT_CODES[phase] if code is None else code
    state = {"terminated": {"exitCode": exit_code, **({"message": message} if message else {})}}
    return {"phase": phase, "containerStatuses": [{"name": "reader", "state": state}]}

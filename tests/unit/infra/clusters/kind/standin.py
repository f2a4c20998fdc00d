"""Stands for the kind CLI, docker and kubectl, as far as a kind cluster's life needs them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra import docker, paths
from infra.clusters.kind import kind_cli, ownership, pod_network, repair
from infra.clusters.kind.config import owner_file
from infra.clusters.kind.ownership import Standing
from infra.process import CommandError

NODE_IMAGE = "trainstack/node:v1.34.4-0123456789ab"
RUNNING = {"running", "paused", "restarting"}


def node(
    name: str, marker: Path, status: str = "running", role: str = "control-plane", uid: str = "one"
) -> dict[str, Any]:
    """What `docker inspect` tells of a node that mounts `marker`, made by the creation `uid`."""
    return {
        "Name": f"/{name}",
        "Mounts": [{"Destination": owner_file(uid), "Source": str(marker)}],
        "State": {"Running": status in RUNNING, "Status": status},
        "Config": {"Image": NODE_IMAGE, "Labels": {ownership.ROLE: role}},
        "NetworkSettings": {"Networks": {"kind": {"IPAddress": f"172.18.0.{len(name)}"}}},
    }


class Engine:
    """`nodes` are what docker tells, `calls` what was run; the clone's files lie below `folder`.

    `silent` is how often the API server does not answer yet; `finished` whether kubeadm has set up the control plane.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.calls: list[str] = []
        self.marker_at_create: ownership.Marker | None = None
        self.silent = 0
        self.logs: Callable[[], str] = lambda: ""
        self.finished = True
        monkeypatch.setattr(paths, "STATE", folder / ".trainstack")
        monkeypatch.setattr(paths, "DATA", folder / "data")
        monkeypatch.setattr(paths, "models", lambda stack: folder / "models" / stack)
        monkeypatch.setattr(docker, "labelled", lambda label: list(self.nodes))
        self.identity = {"id": "AAAA:BBBB", "host": "unix:///var/run/docker.sock"}
        monkeypatch.setattr(docker, "identity", lambda: dict(self.identity))
        monkeypatch.setattr(docker, "execute", self.execute)
        monkeypatch.setattr(repair, "LOOK_S", 0.0)
        for module in (kind_cli, repair, pod_network):
            monkeypatch.setattr(module, "output", self.run)

    def called(self, program: str) -> list[str]:
        """The first three words of each call of `program`."""
        return [" ".join(call.split()[:3]) for call in self.calls if call.startswith(f"{program} ")]

    def execute(self, name: str, *command: str, stdin: str | None = None) -> str:
        self.calls.append(" ".join(["exec", name, *command]))
        if command[0] == "test" and not self.finished:
            raise CommandError("no such file")
        return ""

    def run(self, *command: str, stdin: str | None = None) -> str:
        self.calls.append(" ".join(command))
        words = list(command)
        if words[:2] == ["kind", "create"]:
            begun = ownership.read_marker("c")
            self.marker_at_create = begun
            self.nodes = [node("c-control-plane", paths.marker("c"), uid=begun.uid if begun else "")]
        if words[:2] == ["kind", "delete"]:
            self.nodes = []
        if words[:2] in (["kind", "create"], ["kind", "export"]):
            if not self.finished:
                raise CommandError("no /etc/kubernetes/admin.conf")
            Path(words[words.index("--kubeconfig") + 1]).write_text("apiVersion: v1")
        if words[:2] == ["docker", "logs"]:
            return self.logs()
        if words[0] == "docker":
            started = next(each for each in self.nodes if each["Name"] == f"/{words[2]}")
            started["State"] = {"Running": True, "Status": "running"}
        return self.kubectl(words) if words[0] == "kubectl" else ""

    def kubectl(self, words: list[str]) -> str:
        if "/readyz" in words and self.silent:
            self.silent -= 1
            raise CommandError("connection refused")
        if "nodes" in words:
            items = [
                f'{{"metadata": {{"name": "{each["Name"][1:]}"}}, "spec": {{"podCIDR": "10.244.{number}.0/24"}}}}'
                for number, each in enumerate(self.nodes)
            ]
            return f'{{"items": [{", ".join(items)}]}}'
        return '{"items": []}'


def given(engine: Engine, standing: Standing) -> list[dict[str, Any]]:
    """Bring about what `standing` says of cluster `c`; its nodes then."""
    marker = paths.marker("c")
    engine.nodes = []
    if standing is not Standing.NONE:
        uid = ownership.begin("c")
        engine.nodes = [
            node("c-control-plane", marker, uid=uid),
            node("c-worker", marker, role="worker", uid=uid),
        ]
        if standing is not Standing.UNFINISHED:
            ownership.finish("c", uid)
    if standing is Standing.REMAINS:
        engine.nodes = engine.nodes[1:]
    if standing is Standing.UNTOLD:
        marker.unlink()
    if standing is Standing.OTHERS:
        engine.nodes[0] = node("c-control-plane", marker.parent / "another.json")
    engine.calls.clear()
    return list(engine.nodes)

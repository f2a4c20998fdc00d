"""An object as YAML for a reviewer: what a PyTorchJob says several times stands there once.

A run's id and a pod that all replica types share get an anchor where they come first, and an alias after that. Every
reader of YAML, kubectl among them, sees the same object as without.
"""

from __future__ import annotations

import io
from typing import Any

import yaml

from infra.job.manifest import run_of
from infra.objects.manifest import Manifest
from infra.objects.pytorchjob import KIND

WIDTH = 100


def text(manifest: Manifest) -> str:
    """`manifest` with sorted keys. A text of several lines is written as several lines."""
    stream = io.StringIO()
    shared = _shared(manifest) if manifest["kind"] == KIND else {}
    dumper = _Dumper(stream, shared)
    dumper.open()
    dumper.represent(_with_one_object_each(manifest, list(shared.values())))
    dumper.close()
    return stream.getvalue()


def _shared(job: Manifest) -> dict[str, Any]:
    """Anchor -> the part of a PyTorchJob that it stands for."""
    pods = [replica["template"]["spec"] for replica in job["spec"]["pytorchReplicaSpecs"].values()]
    run = run_of(job)
    shared: dict[str, Any] = {"run": run}
    if len(pods) > 1 and all(pod == pods[0] for pod in pods):
        shared["pod"] = _with_one_object_each(pods[0], [run])
    return shared


def _with_one_object_each(value: Any, shared: list[Any]) -> Any:
    """A copy of `value` in which everything that equals one of `shared` is that very object."""
    for each in shared:
        if value == each:
            return each
    if isinstance(value, dict):
        return {key: _with_one_object_each(entry, shared) for key, entry in value.items()}
    if isinstance(value, list):
        return [_with_one_object_each(entry, shared) for entry in value]
    return value


class _Dumper(yaml.SafeDumper):
    """`shared`: anchor -> the object that goes by it; no other object gets one."""

    def __init__(self, stream: io.StringIO, shared: dict[str, Any]) -> None:
        super().__init__(stream, sort_keys=True, width=WIDTH, allow_unicode=True, default_flow_style=False)
        self.names = {id(each): name for name, each in shared.items()}
        self.given: dict[int, str] = {}

    def ignore_aliases(self, data: object) -> bool:
        return id(data) not in self.names

    def represent_data(self, data: Any) -> yaml.Node:
        node = super().represent_data(data)
        if id(data) in self.names:
            self.given[id(node)] = self.names[id(data)]
        return node

    def generate_anchor(self, node: yaml.Node) -> str:
        return self.given[id(node)]


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)

"""Stacks and manifests that several tests start from."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import stack_plan
from infra.config import Stack, from_raw
from infra.job.context import JobContext
from infra.upstream import vendored

IMAGE = "registry.example/trainer@sha256:" + "0" * 64
JOB: dict[str, Any] = {
    "name": "pytorch-simple",
    "command": ["python3", "/opt/pytorch-mnist/mnist.py"],
    "training": {"epochs": 1, "dataset": "auto", "digitsEpochs": 12},
}


def stack(name: str = "dev", **sections: Any) -> Stack:
    given = sections if {"job", "jobs"} & set(sections) else {"job": JOB, **sections}
    return from_raw(name, given, f"stacks/Pulumi.{name}.yaml")


def shown(known: Stack) -> list[dict[str, Any]]:
    """The objects of a stack, as a review takes them."""
    return [each.manifest for each in stack_plan.of(known, stack_plan.reviewed(known))]


def job_context(**changes: Any) -> JobContext:
    usual: dict[str, Any] = {
        "image": IMAGE,
        "stack": "dev",
        "image_inputs": "sha256:" + "0" * 64,
        "namespace": "kubeflow",
        "claim": "models",
        "mount_path": "/opt/mnist/models",
        "dataset": None,
    }
    return JobContext(**(usual | changes))


def kubeconfig(server: str, cluster: dict[str, Any] | None = None, user: Any = None) -> dict[str, Any]:
    """A kubeconfig with one context, `new`, which is the current one."""
    return {
        "clusters": [{"name": "c", "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "new", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "new",
    }


def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, in its only entry: it stands still, and each pause passes at once."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    return now


UPSTREAM: dict[str, list[dict[str, Any]]] = yaml.safe_load(
    Path(__file__).with_name("upstream_samples.yaml").read_text()
)
"""Project -> a few of its objects, as upstream has them."""
OVERLAY = UPSTREAM["training-operator"]
_read = vendored.objects


def upstreams(project: str) -> list[dict[str, Any]]:
    """As vendored.objects, but OVERLAY for the training-operator, whose definition is 600 kB."""
    return OVERLAY if project == "training-operator" else _read(project)


def operators_of_both(project: str) -> list[dict[str, Any]]:
    """As vendored.objects, with few objects of each project."""
    return UPSTREAM[project]

"""Stacks and manifests that several tests start from."""

from __future__ import annotations

from typing import Any

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


OVERLAY: list[dict[str, Any]] = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kubeflow"}},
    *(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.kubeflow.org"},
            "spec": {"group": "kubeflow.org"},
        }
        for plural in ("pytorchjobs", "tfjobs")
    ),
    {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "training-operator-webhook-cert", "namespace": "kubeflow"},
        "data": {},
        "type": "Opaque",
    },
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "training-operator", "namespace": "kubeflow"},
        "spec": {"ports": [{"port": 443}]},
    },
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "training-operator", "namespace": "kubeflow"},
        "spec": {
            "template": {
                "metadata": {"labels": {"control-plane": "kubeflow-training-operator"}},
                "spec": {
                    "containers": [
                        {
                            "name": "training-operator",
                            "image": "ghcr.io/kubeflow/training-v1/training-operator:v1-d6eb98e",
                            "readinessProbe": {
                                "httpGet": {"path": "/readyz", "port": 8081},
                                "periodSeconds": 15,
                            },
                            "volumeMounts": [],
                        }
                    ],
                    "volumes": [],
                },
            }
        },
    },
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "validator.training-operator.kubeflow.org"},
        "webhooks": [
            {"name": kind, "clientConfig": {"service": {"path": f"/validate-kubeflow-org-v1-{kind}"}}}
            for kind in ("pytorchjob", "tfjob")
        ],
    },
]
_read = vendored.objects


def upstreams(project: str) -> list[dict[str, Any]]:
    """As vendored.objects, but OVERLAY for the training-operator, whose definition is 600 kB."""
    return OVERLAY if project == "training-operator" else _read(project)

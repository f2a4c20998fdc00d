"""Labels and annotations that our objects carry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MANAGED_BY = {"app.kubernetes.io/managed-by": "trainstack"}
RUN = "trainstack/run"
# On definitions and programs of an upstream project: its version.
VERSION = "app.kubernetes.io/version"
# The API server sets it on every namespace: its name, for selectors.
NAME_OF_NAMESPACE = "kubernetes.io/metadata.name"
# The stack that created an object. Objects without this label are not ours: we do not touch them.
STACK = "trainstack/stack"
# A random id, because two stacks may have the same name. Only the state of the stack that created the object has it.
OWNER = "trainstack/owner"
# On every pod of a job, also in a rendering for GitOps engines, where jobs have other names.
OF_JOB = "pytorch_job_name"
# On a TrainJob's pods. Others may use our job's runtime. Then the runtime's labels are also on
# their pods, but this label has another value there.
OF_JOBSET = "jobset.sigs.k8s.io/jobset-name"
# Annotation of a job in a Kueue queue: the manifest that it was created from.
QUEUED = "trainstack/queued"
SKIP_AWAIT = {"pulumi.com/skipAwait": "true"}

# The names of field managers of Pulumi's plugin, real or ours, begin with this word, for creations and for updates.
PLUGIN = "pulumi"


def is_copied(live: Mapping[str, Any]) -> bool:
    """Whether an object has an owner id that Pulumi's plugin did not write: somebody copied the labels.

    The server records in metadata.managedFields who wrote a field. A copied object has another record. Without
    managedFields, as in inputs, the answer is False.
    """
    metadata = live["metadata"]
    if not metadata.get("managedFields") or OWNER not in (metadata.get("labels") or {}):
        return False
    return not any(
        str(each.get("manager")).startswith(PLUGIN) and f"f:{OWNER}" in _labels_of(each)
        for each in metadata["managedFields"]
    )


def _labels_of(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (entry.get("fieldsV1") or {}).get("f:metadata") or {}
    return found.get("f:labels") or {}


def owner_of(live: Mapping[str, Any]) -> str | None:
    """The owner id on an object; None if it has none."""
    return ((live.get("metadata") or {}).get("labels") or {}).get(OWNER)


def job_of(pod: Mapping[str, str] | None) -> str:
    """The name of the job of a pod with these labels; empty if it belongs to no job."""
    labels = pod or {}
    return labels.get(OF_JOBSET) or labels.get(OF_JOB, "")


def stack_labels(stack: str) -> dict[str, str]:
    """The labels that say which stack created an object."""
    return {**MANAGED_BY, STACK: stack}

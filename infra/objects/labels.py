"""Labels and annotations that our objects carry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MANAGED_BY = {"app.kubernetes.io/managed-by": "trainstack"}
RUN = "trainstack/run"
# Of the definitions and programs of an upstream project: its version.
VERSION = "app.kubernetes.io/version"
# Of every namespace, from the API server: its name, for selectors.
NAME_OF_NAMESPACE = "kubernetes.io/metadata.name"
# Which stack made an object: what lacks it was there before, and is left alone.
STACK = "trainstack/stack"
# Two stacks may have one name. This is the random id that only the state of the stack that made the object holds.
OWNER = "trainstack/owner"
# On every pod of a job, in a rendering for engines too, whose jobs have other names.
OF_JOB = "pytorch_job_name"
# Of a TrainJob's pods; others may use the runtime of one of our jobs, and get its labels with it.
OF_JOBSET = "jobset.sigs.k8s.io/jobset-name"
# An annotation of a job in a queue of Kueue's: what it was made from.
QUEUED = "trainstack/queued"
SKIP_AWAIT = {"pulumi.com/skipAwait": "true"}

# Of Pulumi's plugin, real or ours: it sends what it creates under its own name, and applies later under one of its own.
PLUGIN = "pulumi"


def is_copied(live: Mapping[str, Any]) -> bool:
    """Whether an object carries an owner's id that no plugin of Pulumi's has written: somebody has copied the labels.

    The server keeps who has written a field in metadata.managedFields, and a copy does not bring that along. Without
    that list, as in inputs, nobody can tell.
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


def job_of(pod: Mapping[str, str] | None) -> str:
    """The name of the job that a pod with these labels is of; empty where it is of none."""
    labels = pod or {}
    return labels.get(OF_JOBSET) or labels.get(OF_JOB, "")


def stack_labels(stack: str) -> dict[str, str]:
    """The labels that say which stack made an object."""
    return {**MANAGED_BY, STACK: stack}

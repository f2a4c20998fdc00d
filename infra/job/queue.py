"""A job in a Kueue queue. Kueue decides when the job has pods.

The job is created suspended. After that, Kueue owns the field `suspend`: with its own field manager, it sets `suspend`
to false when it admits the job, and to true when it preempts the job. We do not set `managedBy`: Kueue sets this field
if it moves jobs to other clusters. Sources: https://kueue.sigs.k8s.io/docs/tasks/run/kubeflow/pytorchjobs/,
https://kueue.sigs.k8s.io/docs/tasks/run/trainjobs/, https://kueue.sigs.k8s.io/docs/tasks/run/multikueue/kubeflow/
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

import pulumi

from infra.config.job import PRIORITY_LABEL, QUEUE_LABEL, JobConfig
from infra.objects.job_kinds import PYTORCHJOB, TRAINJOB
from infra.objects.kinds import title
from infra.objects.labels import QUEUED
from infra.objects.manifest import Manifest

SUSPEND = {PYTORCHJOB.kind: "spec.runPolicy.suspend", TRAINJOB.kind: "spec.suspend"}
"""The kind of a job -> the field by which Kueue suspends and starts it."""
DIGITS = 16
LABELS = (QUEUE_LABEL, PRIORITY_LABEL)


def labels(job: JobConfig) -> dict[str, str]:
    """The job's labels for Kueue. Its pods do not have them: Kueue would queue such a pod as a workload."""
    if not job.queue:
        return {}
    return {QUEUE_LABEL: job.queue, **({PRIORITY_LABEL: job.priority} if job.priority else {})}


def with_origin(objects: Sequence[Manifest], plain: Sequence[Manifest]) -> list[Manifest]:
    """The objects of a job in a queue. The job's annotation QUEUED is a hash of all specs and its Kueue labels.

    Parameters:
        objects: the job is the last one.
        plain: the objects without the image's reference, which is unknown until the image is pushed. Another image
            still changes these objects: it makes another run, and they have the run's id.
    """
    *before, job = objects
    kueues = [
        plain[-1]["metadata"]["labels"][each] for each in LABELS if each in plain[-1]["metadata"]["labels"]
    ]
    text = json.dumps([*kueues, *(each["spec"] for each in plain)])
    metadata = job["metadata"]
    notes = {**metadata["annotations"], QUEUED: hashlib.sha256(text.encode()).hexdigest()[:DIGITS]}
    return [*before, {**job, "metadata": {**metadata, "annotations": notes}}]


def options(job: Manifest, held: Mapping[str, str]) -> pulumi.ResourceOptions:
    """Pulumi's options for `job`. If the job is in a queue, `suspend` counts only when the job is created.

    A job that is replaced does not ignore the field: Pulumi 3.260 would give the new job the old job's value
    (processIgnoreChanges in pkg/v3/resource/deploy/step_generator.go changes the program's inputs). If Pulumi replaces
    a job because somebody else changed it, Kueue's webhook sets the field.

    Parameters:
        held: a job of the state -> its annotation QUEUED, from StackState.
    """
    if QUEUE_LABEL not in job["metadata"]["labels"]:
        return pulumi.ResourceOptions()
    stays = held.get(title(job)) == job["metadata"]["annotations"][QUEUED]
    return pulumi.ResourceOptions(
        ignore_changes=[SUSPEND[job["kind"]]] if stays else None,
        replace_on_changes=[f'metadata.labels["{each}"]' for each in LABELS],
    )

"""A job in a queue of Kueue's, which alone says when the job has pods.

The job is made suspended. From then on the field is Kueue's: it sets it to false when it admits the job and to true
when it preempts it, with a field manager of its own. `managedBy` is left out: Kueue sets it itself where it hands jobs
to other clusters, and nowhere else. Sources: https://kueue.sigs.k8s.io/docs/tasks/run/kubeflow/pytorchjobs/,
https://kueue.sigs.k8s.io/docs/tasks/run/trainjobs/, https://kueue.sigs.k8s.io/docs/tasks/run/multikueue/kubeflow/
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

import pulumi

from infra.config.job import PRIORITY_LABEL, QUEUE_LABEL, JobConfig
from infra.objects.job_kinds import PYTORCHJOB, TRAINJOB
from infra.objects.labels import QUEUED
from infra.objects.manifest import Manifest, title

SUSPEND = {PYTORCHJOB.kind: "spec.runPolicy.suspend", TRAINJOB.kind: "spec.suspend"}
"""The kind of a job -> the field by which Kueue holds and releases it."""
DIGITS = 16
LABELS = (QUEUE_LABEL, PRIORITY_LABEL)


def labels(job: JobConfig) -> dict[str, str]:
    """What tells Kueue of the job. Of the job alone: pods with it would be workloads of their own."""
    if not job.queue:
        return {}
    return {QUEUE_LABEL: job.queue, **({PRIORITY_LABEL: job.priority} if job.priority else {})}


def with_origin(objects: Sequence[Manifest], plain: Sequence[Manifest]) -> list[Manifest]:
    """The objects of a job in a queue; the job, the last of them, has an annotation that says what it was made from.

    Parameters:
        plain: the same without the image's reference, which is not known before the image is pushed. Another image
            trains another run, whose id stands in the objects.
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
    """How Pulumi treats `job`: in a queue, `suspend` counts where the job is made, and never again.

    A job that is to be made anew does not ignore the field: Pulumi 3.260 would give the new one the old one's value
    (processIgnoreChanges in pkg/v3/resource/deploy/step_generator.go changes what the program has given). Of one that
    Pulumi replaces for what others have changed, Kueue's webhook sets the field.

    Parameters:
        held: what the state's jobs were made from, as StackState has it.
    """
    if QUEUE_LABEL not in job["metadata"]["labels"]:
        return pulumi.ResourceOptions()
    stays = held.get(title(job)) == job["metadata"]["annotations"][QUEUED]
    return pulumi.ResourceOptions(
        ignore_changes=[SUSPEND[job["kind"]]] if stays else None,
        replace_on_changes=[f'metadata.labels["{each}"]' for each in LABELS],
    )

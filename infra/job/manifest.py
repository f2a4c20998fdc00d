"""The PyTorchJob as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.config.job import JobConfig
from infra.config.training import Dataset
from infra.job import queue
from infra.job.context import JobContext
from infra.job.pod import template
from infra.job.run_id import run_id
from infra.objects.job_kinds import PYTORCHJOB
from infra.objects.labels import MANAGED_BY, RUN, SKIP_AWAIT
from infra.objects.manifest import Manifest

DATASET = "trainstack/dataset"
# The operator checks a job's deadline only when the job or a pod changes: the timer of training-operator 1.9.3 does not
# work (kubeflow/trainer#3358). So the pods end by themselves, which the operator sees. A new pod counts from its
# own start. The pods' deadline is a second later: both times are cut to seconds, and the operator would replace a pod
# that ends before the job's deadline.
LATER_S = 1


def run_policy(job: JobConfig) -> dict[str, Any]:
    """The job's `runPolicy`. It has `suspend` only if the job is created suspended."""
    policy = {key: value for key, value in job.run_policy.manifest().items() if key != "suspend"}
    return {**policy, **({"suspend": True} if job.starts_suspended else {})}


def _replica(job: JobConfig, context: JobContext, name: str, run: str) -> dict[str, Any]:
    """The pod template of the replica type `name`. Its pods have the job's deadline, and the run's id."""
    plain = template(job, context, name)
    metadata, pod = plain["metadata"], plain["spec"]
    first, *others = pod["containers"]
    named = {**first, "env": [{"name": "TRAINER_RUN", "value": run}, *first["env"]]}
    deadline = {"activeDeadlineSeconds": job.run_policy.active_deadline_seconds + LATER_S}
    return {
        "metadata": {**metadata, "labels": {**metadata["labels"], RUN: run}},
        "spec": {**pod, **deadline, "containers": [named, *others]},
    }


def _spec(job: JobConfig, context: JobContext, run: str) -> dict[str, Any]:
    replicas = {"Master": job.replicas.master, "Worker": job.replicas.worker}
    elastic = job.elastic_policy
    return {
        "nprocPerNode": str(job.nproc_per_node),
        "runPolicy": run_policy(job),
        **({"elasticPolicy": elastic.manifest()} if elastic else {}),
        "pytorchReplicaSpecs": {
            kind: {
                "replicas": count,
                "restartPolicy": job.restart_policy.value,
                "template": _replica(job, context, kind.lower(), run),
            }
            for kind, count in replicas.items()
            if count
        },
    }


def dataset_note(job: JobConfig) -> dict[str, str]:
    """An annotation that explains the data set `auto` to a reader on another machine."""
    if job.training.dataset is not Dataset.AUTO:
        return {}
    digits = f", --epochs={job.training.digits_epochs}" if job.training.digits_epochs else ""
    return {DATASET: f"auto: the data set in the data folder; without one the digits in the image{digits}"}


def metadata(job: JobConfig, context: JobContext, labels: Mapping[str, str]) -> dict[str, Any]:
    """The metadata of an object for one run of `job`, with these further `labels`."""
    return {
        "name": job.name,
        "namespace": context.namespace,
        "labels": {**MANAGED_BY, **job.labels, **labels, RUN: run_id(job, context)},
        "annotations": {**job.annotations, **dataset_note(job), **SKIP_AWAIT},
    }


def manifest(job: JobConfig, context: JobContext) -> Manifest:
    """The whole PyTorchJob."""
    return {
        "apiVersion": PYTORCHJOB.api_version,
        "kind": PYTORCHJOB.kind,
        "metadata": metadata(job, context, queue.labels(job)),
        "spec": _spec(job, context, run_id(job, context)),
    }


def run_of(job: Manifest) -> str:
    """The run id that `manifest` gave the job."""
    return str(job["metadata"]["labels"][RUN])

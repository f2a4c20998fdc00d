"""The PyTorchJob as data."""

from __future__ import annotations

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


def replica(job: JobConfig, context: JobContext, name: str) -> dict[str, Any]:
    """The pod template of the replica type `name`. Its pods have the job's deadline, too."""
    plain = template(job, context, name)
    deadline = {"activeDeadlineSeconds": job.run_policy.active_deadline_seconds + LATER_S}
    return {**plain, "spec": {**plain["spec"], **deadline}}


def spec(job: JobConfig, context: JobContext) -> dict[str, Any]:
    """The job's spec without its run id."""
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
                "template": replica(job, context, kind.lower()),
            }
            for kind, count in replicas.items()
            if count
        },
    }


def identified(plain: dict[str, Any], run: str) -> dict[str, Any]:
    """`plain` with the run's id as label and environment variable of every pod."""
    replicas = plain["pytorchReplicaSpecs"]
    named = {
        kind: {**each, "template": _identified(each["template"], run)} for kind, each in replicas.items()
    }
    return {**plain, "pytorchReplicaSpecs": named}


def _identified(template: dict[str, Any], run: str) -> dict[str, Any]:
    metadata, pod = template["metadata"], template["spec"]
    variable = {"name": "TRAINER_RUN", "value": run}
    first, *others = pod["containers"]
    containers = [{**first, "env": [variable, *first["env"]]}, *others]
    labels = {**metadata["labels"], RUN: run}
    return {"metadata": {**metadata, "labels": labels}, "spec": {**pod, "containers": containers}}


def dataset_note(job: JobConfig) -> dict[str, str]:
    """An annotation that explains the data set `auto` to a reader on another machine."""
    if job.training.dataset is not Dataset.AUTO:
        return {}
    digits = f", --epochs={job.training.digits_epochs}" if job.training.digits_epochs else ""
    return {DATASET: f"auto: the data set in the data folder; without one the digits in the image{digits}"}


def manifest(job: JobConfig, context: JobContext) -> Manifest:
    """The whole PyTorchJob."""
    plain = spec(job, context)
    run = run_id(job, context)
    return {
        "apiVersion": PYTORCHJOB.api_version,
        "kind": PYTORCHJOB.kind,
        "metadata": {
            "name": job.name,
            "namespace": context.namespace,
            "labels": {**MANAGED_BY, **job.labels, **queue.labels(job), RUN: run},
            "annotations": {**job.annotations, **dataset_note(job), **SKIP_AWAIT},
        },
        "spec": identified(plain, run),
    }


def run_of(job: Manifest) -> str:
    """The run id that `manifest` gave the job."""
    return str(job["metadata"]["labels"][RUN])

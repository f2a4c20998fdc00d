"""The TrainJob of Kubeflow Trainer v2 and the TrainingRuntime that it runs on, as data.

The runtime says where a replica runs: image, volumes, resources, security. The job says what trains there: command,
options, run. Sources: pkg/apis/trainer/v1alpha1 and pkg/runtime/framework/plugins/torch of Kubeflow Trainer 2.3.0;
https://jobset.sigs.k8s.io/docs/tasks/failure_policy/
"""

from __future__ import annotations

from typing import Any

from infra.config.job import JobConfig
from infra.config.run_policies import RestartPolicy
from infra.job import queue
from infra.job.context import JobContext
from infra.job.manifest import metadata
from infra.job.pod import OF_OPERATOR, of_replicas, takes, template
from infra.job.run_id import run_id
from infra.objects.job_kinds import RUNTIME, TRAINJOB
from infra.objects.labels import OF_JOB, OF_JOBSET, RUN
from infra.objects.manifest import Manifest

# Kubeflow's client lists only runtimes that name their framework.
FRAMEWORK = {"trainer.kubeflow.org/framework": "torch"}
ANCESTOR = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
# With the restart policy ExitCode, these exit codes end the job as failed, as in the training-operator.
FINAL_CODES = list(range(1, 128))
# The reason in the condition of a batch/v1 Job that its podFailurePolicy ended.
FINAL_REASON = "PodFailurePolicy"


def manifests(job: JobConfig, context: JobContext) -> list[Manifest]:
    """The runtime and, after it, the job."""
    return [runtime(job, context), trainjob(job, context)]


def runtime(job: JobConfig, context: JobContext) -> Manifest:
    """The TrainingRuntime, which has the job's name."""
    return {
        "apiVersion": TRAINJOB.api_version,
        "kind": RUNTIME,
        "metadata": metadata(job, context, FRAMEWORK),
        "spec": {
            "mlPolicy": {"numNodes": job.replicas.total, "torch": {}},
            "template": {
                "spec": {
                    "failurePolicy": _failure_policy(job),
                    "replicatedJobs": [
                        {
                            "name": TRAINJOB.container,
                            "replicas": 1,
                            "template": {"metadata": {"labels": ANCESTOR}, "spec": _replicas(job, context)},
                        }
                    ],
                }
            },
        },
    }


def jobs_of(manifest: Manifest) -> list[Manifest]:
    """The batch/v1 Jobs that JobSet creates for a TrainingRuntime; none for a manifest of another kind.

    Source: pkg/controllers/jobset_controller.go of JobSet 0.12.0.
    """
    if manifest["kind"] != RUNTIME:
        return []
    nodes = manifest["spec"]["mlPolicy"]["numNodes"]
    indexed = {"completionMode": "Indexed", "completions": nodes, "parallelism": nodes}
    place = manifest["metadata"]
    return [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": f"{place['name']}-{each['name']}-0", "namespace": place["namespace"]},
            "spec": {**each["template"]["spec"], **indexed},
        }
        for each in manifest["spec"]["template"]["spec"]["replicatedJobs"]
    ]


def trainjob(job: JobConfig, context: JobContext) -> Manifest:
    """The TrainJob. Trainer enforces its deadline; JobSet restarts its pods."""
    found = template(job, context, TRAINJOB.container)["spec"]["containers"][0]
    words = {key: found[key] for key in ("command", "args") if key in found}
    return {
        "apiVersion": TRAINJOB.api_version,
        "kind": TRAINJOB.kind,
        "metadata": metadata(job, context, queue.labels(job)),
        "spec": {
            "runtimeRef": {"apiGroup": TRAINJOB.group, "kind": RUNTIME, "name": job.name},
            "trainer": {
                "numNodes": job.replicas.total,
                "numProcPerNode": job.nproc_per_node,
                **words,
                "env": [{"name": "TRAINER_RUN", "value": run_id(job, context)}, *takes(job)],
            },
            "activeDeadlineSeconds": job.run_policy.active_deadline_seconds,
            **({"suspend": True} if job.starts_suspended else {}),
        },
    }


def _failure_policy(job: JobConfig) -> dict[str, Any]:
    """All replicas restart when one fails, at most `backoffLimit` times."""
    if job.restart_policy is RestartPolicy.NEVER:
        return {"maxRestarts": 0}
    restarts: dict[str, Any] = {"maxRestarts": job.run_policy.backoff_limit}
    if job.restart_policy is RestartPolicy.EXIT_CODE:
        final = {"name": "finalExitCode", "action": "FailJobSet", "onJobFailureReasons": [FINAL_REASON]}
        restarts["rules"] = [final]
    return restarts


def _replicas(job: JobConfig, context: JobContext) -> dict[str, Any]:
    """The spec of the batch/v1 Job whose pods are the replicas. The Job itself does not replace a failed pod."""
    final: dict[str, Any] = {
        "action": "FailJob",
        "onExitCodes": {"containerName": TRAINJOB.container, "operator": "In", "values": FINAL_CODES},
    }
    by_code = job.restart_policy is RestartPolicy.EXIT_CODE
    return {
        "backoffLimit": 0,
        **({"podFailurePolicy": {"rules": [final]}} if by_code else {}),
        "template": _pod(job, context),
    }


def _pod(job: JobConfig, context: JobContext) -> dict[str, Any]:
    """The PyTorchJob's pod template, without the TrainJob's own fields and the training-operator's labels."""
    plain = template(job, context, TRAINJOB.container)
    first, *others = plain["spec"]["containers"]
    replica = {key: value for key, value in first.items() if key not in ("command", "args")}
    spec = {
        **plain["spec"],
        "containers": [{**replica, "name": TRAINJOB.container}, *others],
        "restartPolicy": "Never",
    }
    for entry in spec.get("topologySpreadConstraints", []):
        if entry.get("labelSelector") == of_replicas(job):
            # The pods of one TrainJob. Pods of a GitOps engine's job, and of others' jobs on this runtime, have the
            # same label OF_JOB, but their JobSets have other names.
            entry |= {"labelSelector": {"matchLabels": {OF_JOB: job.name}}, "matchLabelKeys": [OF_JOBSET]}
    labels = {key: value for key, value in plain["metadata"]["labels"].items() if key not in OF_OPERATOR}
    return {
        "metadata": {**plain["metadata"], "labels": {**labels, RUN: run_id(job, context)}},
        "spec": spec,
    }

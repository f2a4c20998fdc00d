"""The run of one job, from its start to the model on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi

from infra import agreed, paths
from infra.clusters.cluster import Cluster
from infra.config.operator import OperatorApi
from infra.job import helper_pods
from infra.job.context import Job
from infra.objects.job_kinds import TRAINJOB
from infra.run.copy import ModelCopy
from infra.run.ending import Ending
from infra.run.provider import RESULTS, Run


@dataclass(frozen=True)
class JobRun:
    """The run of a job, as resources of the job's component.

    Parameters:
        last: the resource that is complete once the job has succeeded and its model is on this machine, or at once if
            the stack file suspends the job.
        model_path: the model's path in the form of `paths.portable`, known once the file exists.
    """

    last: pulumi.Resource
    status: pulumi.Output[str]
    accuracy: pulumi.Output[float | None]
    loss: pulumi.Output[float | None]
    model_path: pulumi.Output[str]


def follow(job: Job, cluster: Cluster, models: Path, model: Path, *, is_volume: bool) -> JobRun:
    """Register the resources that follow `job` to its end.

    Parameters:
        models: this machine's folder for the stack's models.
        model: the job's model file in `models`.
        is_volume: whether this folder is the volume; otherwise the run's files are copied into it.
    """
    config = job.config

    def after(others: list[pulumi.Resource]) -> pulumi.ResourceOptions:
        moved = pulumi.ResourceOptions(aliases=[_earlier(config.name)])
        return pulumi.ResourceOptions.merge(cluster.bound(job.component, others), moved)

    identity = {
        "kubeconfigPath": cluster.kubeconfig_path,
        "context": cluster.context,
        "namespace": job.namespace,
        "uid": job.uid,
        "run": job.run,
    }
    volume = {
        "image": job.context.image,
        "claim": job.context.claim,
        "mountPath": job.context.mount_path,
        "pod": helper_pods.spec_fields([config], job.context.group),
    }
    copies = not is_volume and config.model is not None
    reached = {**volume, "user": config.user} if copies else {}
    files = {"models" if is_volume else "copies": paths.portable(models), **reached}
    api = job.context.api
    how = {"job": config.name, "suspend": config.run_policy.suspend}
    leaves = {"model": config.model} if config.model else {}
    waits = {"queue": config.queue} if config.queue else {}
    kind = {"kind": TRAINJOB.kind} if api is OperatorApi.V2 else {}
    seconds = config.run_policy.ttl_seconds_after_finished
    leaving: dict[str, Any] = {} if seconds is None else {agreed.TTL: seconds}
    if job.ended:
        leaving["ended"] = {name: job.ended.get(name) for name in RESULTS}
    if api is OperatorApi.V2:
        props = {**identity, "job": config.name}
        Ending(f"{config.name}-ending", props, after(job.made))
    run = Run(
        config.name, {**identity, **how, **leaves, **waits, **kind, **leaving, **files}, after(job.made)
    )
    target = paths.portable(model)
    last: pulumi.Resource = run
    model_path = run.jobStatus.apply(lambda _: target)
    if copies and not config.run_policy.suspend:
        copied = {**identity, **reached, "model": config.model, "target": target}
        copy = ModelCopy(config.name, copied, after([run]))
        last = copy
        model_path = copy.sha256.apply(lambda _: target)
    return JobRun(last, run.jobStatus, run.accuracy, run.loss, model_path)


def _earlier(job: str) -> pulumi.Alias:
    """Where the resource was in the state of commit 4e9ca64: in a component of the run's own."""
    return pulumi.Alias(parent=pulumi.create_urn(job, "trainstack:run:JobRun"))

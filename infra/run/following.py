"""The run of one job, from its start to the model on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pulumi

from infra import agreed, paths
from infra.clusters.cluster import Cluster
from infra.config.job import JobConfig
from infra.config.operator import OperatorApi
from infra.job import helper_pods
from infra.job.context import Job
from infra.objects.job_kinds import TRAINJOB
from infra.run.copy import ModelCopy
from infra.run.ending import Ending
from infra.run.provider import RESULTS, Run


def rank0_pod(job: JobConfig, api: OperatorApi = OperatorApi.V1) -> str:
    """The name of the pod whose log has the metrics; it ends in `-` if Kubernetes adds a suffix."""
    if api is OperatorApi.V2:
        return f"{job.name}-{TRAINJOB.container}-0-0-"
    return f"{job.name}-{'master' if job.replicas.master else 'worker'}-0"


class JobRun(pulumi.ComponentResource):
    """Is complete if the job succeeded and its model is on this machine, or if the stack file suspends the job.

    Parameters:
        models: this machine's folder for the stack's models.
        is_volume: whether this folder is the volume; otherwise the run's files are copied into it.
        model: the job's model file in `models`.

    Attributes:
        model_path: `model` in the form of `paths.portable`, known once the file exists.
    """

    def __init__(self, *, job: Job, cluster: Cluster, models: Path, is_volume: bool, model: Path) -> None:
        config = job.config
        super().__init__(agreed.JOB_RUN, config.name)
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
        how = {"job": config.name, "rank0": rank0_pod(config, api), "suspend": config.run_policy.suspend}
        leaves = {"model": config.model} if config.model else {}
        waits = {"queue": config.queue} if config.queue else {}
        kind = {"kind": TRAINJOB.kind} if api is OperatorApi.V2 else {}
        seconds = config.run_policy.ttl_seconds_after_finished
        leaving: dict[str, Any] = {} if seconds is None else {agreed.TTL: seconds}
        if job.ended:
            leaving["ended"] = {name: job.ended.get(name) for name in RESULTS}
        if api is OperatorApi.V2:
            props = {**identity, "job": config.name}
            Ending(f"{config.name}-ending", props, cluster.bound(self, job.made))
        run = Run(
            config.name,
            {**identity, **how, **leaves, **waits, **kind, **leaving, **files},
            cluster.bound(self, job.made),
        )
        self.status, self.accuracy, self.loss = run.jobStatus, run.accuracy, run.loss
        target = paths.portable(model)
        self.model_path = run.jobStatus.apply(lambda _: target)
        if copies and not config.run_policy.suspend:
            copied = {**identity, **volume, "model": config.model, "target": target}
            copy = ModelCopy(config.name, copied, cluster.bound(self, [run]))
            self.model_path = copy.sha256.apply(lambda _: target)
        self.register_outputs({"jobStatus": run.jobStatus})

"""The run of one PyTorchJob, from its start to the model on this machine."""

from __future__ import annotations

import pulumi

from infra.clusters.cluster import Cluster
from infra.config.job import JobConfig
from infra.job.component import Job
from infra.run.copy import ModelCopy
from infra.run.provider import Run


def rank0_pod(job: JobConfig) -> str:
    """The pod whose log has the metrics."""
    return f"{job.name}-{'master' if job.replicas.master else 'worker'}-0"


class JobRun(pulumi.ComponentResource):
    """Ends when the job has succeeded and its model is on this machine.

    With kind the volume is a folder here; from elsewhere the model is copied to `model`.
    """

    def __init__(self, *, job: Job, cluster: Cluster, model: pulumi.Output[str]) -> None:
        config = job.config
        super().__init__("trainstack:run:JobRun", config.name)
        metadata = job.object.metadata
        identity = {
            "kubeconfigPath": cluster.kubeconfig_path,
            "context": cluster.context,
            "namespace": metadata["namespace"],
            "uid": job.object.uid,
            "run": job.run,
        }
        props = {**identity, "job": config.name, "rank0": rank0_pod(config)}
        run = Run(config.name, props, cluster.bound(self, [job.object]))
        self.status, self.accuracy, self.loss = run.jobStatus, run.accuracy, run.loss
        self.model_path = pulumi.Output.all(model, run.jobStatus).apply(lambda known: str(known[0]))
        if cluster.nodes is None and config.model and not config.run_policy.suspend:
            volume = {
                "image": job.context.image,
                "claim": job.context.claim,
                "mountPath": job.context.mount_path,
                "model": config.model,
                "target": model,
            }
            opts = cluster.bound(self, [run])
            self.model_path = ModelCopy(config.name, {**identity, **volume}, opts).target
        self.register_outputs({"jobStatus": run.jobStatus})

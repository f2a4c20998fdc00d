"""One PyTorchJob and its run."""

from __future__ import annotations

import pulumi

from infra.clusters.cluster import Cluster
from infra.config.job import JobConfig
from infra.job.manifest import API_VERSION, KIND, manifest, run_of
from infra.job.pod import Placement
from infra.objects.manifest import Object
from infra.run.copy import ModelCopy
from infra.run.provider import Run


def rank0(job: JobConfig) -> str:
    """The pod whose log tells the metrics."""
    return f"{job.name}-{'master' if job.replicas.master else 'worker'}-0"


class Job(pulumi.ComponentResource):
    """A changed job is replaced, the old one deleted first: it has the configured name."""

    def __init__(
        self,
        *,
        job: JobConfig,
        placement: pulumi.Output[Placement],
        cluster: Cluster,
        after: list[pulumi.Resource],
    ) -> None:
        super().__init__("trainstack:job:Job", job.name)
        self.name = job.name
        wanted = placement.apply(lambda known: manifest(job, known))
        replace = pulumi.ResourceOptions(replace_on_changes=["spec"], delete_before_replace=True)
        opts = pulumi.ResourceOptions.merge(cluster.options(self, after), replace)
        self.object = Object(f"{KIND}/{job.name}", wanted, api_version=API_VERSION, kind=KIND, opts=opts)
        self.run = wanted.apply(run_of)
        self.register_outputs({"run": self.run})


class JobRun(pulumi.ComponentResource):
    """Ends when the job has succeeded and its model is on this machine.

    With kind the volume is a folder here; from elsewhere the model is copied to `model`.
    """

    def __init__(
        self,
        *,
        job: JobConfig,
        registered: Job,
        placement: pulumi.Output[Placement],
        cluster: Cluster,
        model: pulumi.Output[str],
    ) -> None:
        super().__init__("trainstack:run:JobRun", job.name)
        metadata = registered.object.metadata
        identity = {
            "kubeconfigPath": cluster.kubeconfig_path,
            "context": cluster.context,
            "namespace": metadata["namespace"],
            "uid": registered.object.uid,
            "run": registered.run,
        }
        props = {**identity, "job": job.name, "rank0": rank0(job)}
        run = Run(job.name, props, cluster.bound(self, [registered.object]))
        self.status, self.accuracy, self.loss = run.jobStatus, run.accuracy, run.loss
        self.model_path = pulumi.Output.all(model, run.jobStatus).apply(lambda known: str(known[0]))
        if cluster.nodes is None and job.model and not job.run_policy.suspend:
            volume = {
                "image": placement.image,
                "claim": placement.claim,
                "mountPath": placement.mount_path,
                "model": job.model,
                "target": model,
            }
            self.model_path = ModelCopy(job.name, {**identity, **volume}, cluster.bound(self, [run])).target
        self.register_outputs({"jobStatus": run.jobStatus})

"""One PyTorchJob."""

from __future__ import annotations

import pulumi

from infra.clusters.cluster import Cluster
from infra.config.job import JobConfig
from infra.job.context import JobContext
from infra.job.manifest import manifest, run_of
from infra.objects.manifest import Object
from infra.objects.pytorchjob import API_VERSION, KIND


class Job(pulumi.ComponentResource):
    """A changed job is replaced, the old one deleted first: it has the configured name.

    Parameters:
        job: its section of the stack file.
        context: what the stack decides for every job.
        cluster: where it runs.
        depends_on: what has to be there before it.
    """

    def __init__(
        self,
        *,
        job: JobConfig,
        context: JobContext,
        cluster: Cluster,
        depends_on: list[pulumi.Resource],
    ) -> None:
        super().__init__("trainstack:job:Job", job.name)
        self.config, self.context = job, context
        wanted = manifest(job, context)
        replace = pulumi.ResourceOptions(replace_on_changes=["spec"], delete_before_replace=True)
        opts = pulumi.ResourceOptions.merge(cluster.options(self, depends_on), replace)
        self.object = Object(f"{KIND}/{job.name}", wanted, api_version=API_VERSION, kind=KIND, opts=opts)
        self.run = run_of(wanted)
        self.register_outputs({"run": self.run})

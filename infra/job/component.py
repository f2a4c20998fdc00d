"""One job: a PyTorchJob, or a TrainJob with its runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pulumi

from infra import agreed
from infra.clusters.cluster import Cluster
from infra.config.job import JobConfig
from infra.job import queue, secret
from infra.job.apis import objects
from infra.job.context import JobContext, held_by
from infra.job.manifest import run_of
from infra.objects.manifest import Manifest, Object, register, title


class Job(pulumi.ComponentResource):
    """A changed job is replaced, the old one deleted first: it has the configured name.

    Parameters:
        job: its section of the stack file.
        context: what the stack decides for every job.
        cluster: where it runs.
        depends_on: what has to be there before it.
        queued: what jobs in queues were made from, as the state has it.
        left: what infra.run.finished.left returns. A job that has left is made again for another run alone.

    Attributes:
        run: the id of its run.
        ended: that run as the state has it, where the job has finished and left; else empty.
        made: the job; nothing where it has left.
        namespace: the job's.
        uid: the job's, also of one that has left.
    """

    def __init__(
        self,
        *,
        job: JobConfig,
        context: JobContext,
        cluster: Cluster,
        depends_on: list[pulumi.Resource],
        queued: Mapping[str, str] | None = None,
        left: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        super().__init__(agreed.JOB, job.name)
        if job.encrypted:
            held = self._secret(job, context.namespace, cluster, depends_on)
            context = replace(context, image=held_by(context.image, [held]))
        self.config, self.context = job, context
        *runtimes, wanted = objects(job, context)
        self.run = run_of(wanted)
        opts = _replaced(cluster.options(self, depends_on), "spec")
        of_job = pulumi.ResourceOptions.merge(opts, queue.options(wanted, queued or {}))
        for each in runtimes:
            wanted = _on(wanted, register(each, opts))
        api_version, kind = wanted["apiVersion"], wanted["kind"]
        run = (left or {}).get(title(wanted), {})
        self.ended = run if run.get("run") == self.run else {}
        if self.ended:
            self.made: list[pulumi.Resource] = []
            self.namespace: pulumi.Input[str] = context.namespace
            self.uid: pulumi.Input[str] = self.ended["uid"]
            asked = f"as runPolicy.{agreed.TTL} asks"
            pulumi.log.info(f"{job.name}: it has finished and left, {asked}; its run {self.run} stays")
        else:
            made = Object(f"{kind}/{job.name}", wanted, api_version=api_version, kind=kind, opts=of_job)
            self.made, self.namespace, self.uid = [made], made.metadata["namespace"], made.uid
        self.register_outputs({"run": self.run})

    def _secret(
        self, job: JobConfig, namespace: str, cluster: Cluster, depends_on: list[pulumi.Resource]
    ) -> pulumi.Resource:
        """The Secret with the job's encrypted variables. Other values make it anew, and the job with it."""
        wanted = {**secret.manifest(job, namespace), "data": pulumi.Output.secret(secret.data(job))}
        return register(wanted, _replaced(cluster.options(self, depends_on), "data"))


def _on(trainjob: Manifest, runtime: pulumi.CustomResource) -> Manifest:
    """`trainjob`, such that it is deleted before its `runtime` is, and made anew with it.

    While the runtime is not there yet, a preview does not know the reference, and so does not try the TrainJob out:
    Trainer's webhook would refuse it.
    """
    spec, name = trainjob["spec"], trainjob["spec"]["runtimeRef"]["name"]
    reference = {**spec["runtimeRef"], "name": runtime.id.apply(lambda _: name)}
    return {**trainjob, "spec": {**spec, "runtimeRef": reference}}


def _replaced(opts: pulumi.ResourceOptions, key: str) -> pulumi.ResourceOptions:
    """`opts` with which a change of `key` makes the object anew, the old one deleted first."""
    replaced = pulumi.ResourceOptions(replace_on_changes=[key], delete_before_replace=True)
    return pulumi.ResourceOptions.merge(opts, replaced)

"""Registers a plan, phase by phase: its objects, and the resources between them that are not Kubernetes objects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pulumi

from infra import agreed, operators, paths, stack_plan, volumes
from infra.clusters.cluster import Cluster
from infra.clusters.kind import data_folders
from infra.clusters.node_folders import Node
from infra.config import Stack
from infra.config.job import JobConfig
from infra.config.training import Dataset
from infra.image.component import Image
from infra.job.context import Job, context
from infra.job.manifest import run_of
from infra.objects.kinds import title
from infra.objects.manifest import Manifest, Object, delete_first, with_image
from infra.run.following import JobRun, follow
from infra.shared_folder import component as shared_folder
from infra.stack_plan import Planned
from storage.directory import NodeDirectory


class Registration:
    """The objects of a plan as resources in a cluster.

    Attributes:
        made: phase, title of an object, or another thing that objects wait for -> its resources.
        image: the trainer image's reference, by digest; unknown in a preview until the image is pushed.
    """

    def __init__(self, cluster: Cluster, planned: Iterable[Planned]) -> None:
        self.cluster, self.planned = cluster, [*planned]
        self.made: dict[str, list[Any]] = defaultdict(list)
        self.image: pulumi.Input[str] = ""

    def rows(self, phase: str) -> list[Planned]:
        """The objects of `phase`, in their order."""
        return [each for each in self.planned if each.phase == phase]

    def register(
        self, phase: str, parent: pulumi.Resource | None = None, without: Planned | None = None
    ) -> None:
        """Register the objects of `phase` except `without`. `parent`: by default the provider."""
        for each in self.rows(phase):
            if each is not without:
                waits = [made for name in each.after for made in self.made[name]]
                opts = self.cluster.options(parent or self.cluster.provider, waits)
                opts = pulumi.ResourceOptions.merge(opts, each.options)
                made = Object(self._filled(each), opts, each.name or title(each.manifest))
                self.made[phase].append(made)
                self.made[title(each.manifest)].append(made)

    def pushed(self, each: Planned) -> pulumi.Output[str]:
        """The image's reference. An object with this reference is deleted before the objects of its `delete_before`."""
        held = [delete_first(made, "") for name in each.delete_before for made in self.made[name]]
        return pulumi.Output.all(self.image, *held).apply(lambda known: str(known[0]))

    def _filled(self, each: Planned) -> Manifest:
        """The object, with the values that are known only now."""
        if each.secret:
            return {**each.manifest, "data": pulumi.Output.secret(each.secret)}
        if each.image:
            return {**with_image(each.manifest, each.image, self.pushed(each))}
        for holder in (made for name in each.delete_before for made in self.made[name]):
            if "runtimeRef" in each.manifest["spec"]:
                return _on(each.manifest, holder)
            held = {key: delete_first(holder, each.manifest[key]) for key in ("metadata", "spec")}
            return each.manifest | held
        return each.manifest


def _on(trainjob: Manifest, runtime: Object) -> Manifest:
    """`trainjob` with a reference by which Pulumi deletes it before `runtime`, and replaces both together.

    Until the runtime exists, the reference is unknown. So a preview makes no dry run of the TrainJob: Trainer's webhook
    would refuse it.
    """
    spec, name = trainjob["spec"], trainjob["spec"]["runtimeRef"]["name"]
    reference = {**spec["runtimeRef"], "name": runtime.id.apply(lambda _: name)}
    return {**trainjob, "spec": {**spec, "runtimeRef": reference}}


def register_plan(
    stack: Stack,
    cluster: Cluster,
    image: Image,
    planned: Iterable[Planned],
    folders: Mapping[str, str],
    datasets: Mapping[str, Dataset | None],
    nodes: Sequence[Node],
    left: Mapping[str, Mapping[str, Any]],
) -> dict[str, JobRun]:
    """Register each object after the objects that it depends on. Returns job's name -> run, of each followed job.

    Parameters:
        folders: what `data_folders.contents` returns.
        datasets: job's name -> its data set.
        nodes: the known nodes of the cluster.
        left: what `finished.left` returns. A finished and deleted job is created again only for another run.
    """
    registration = Registration(cluster, planned)
    made = registration.made
    registration.register(stack_plan.SPACES)
    objects = {part: [each.manifest for each in registration.rows(part)] for part in operators.PARTS}
    made[operators.OPERATOR] = operators.register_all(stack, cluster, objects, made[stack_plan.SPACES]).ready
    registration.register(stack_plan.GUARD)
    made[stack_plan.FOLDERS] = data_folders.register(stack, folders)
    storage = pulumi.ComponentResource("trainstack:storage:Storage", f"{stack.name}-storage")
    registration.register(stack_plan.VOLUMES, storage)
    storage.register_outputs({"claims": [each.claim for each in volumes.volumes(stack)]})
    registration.image, made[stack_plan.IMAGE] = image.reference, image.on_nodes
    registration.register(stack_plan.PREPARED)
    made[stack_plan.PREPARED] += _on_node(stack, cluster)
    pulled = [*made[stack_plan.VOLUMES], *made[stack_plan.PREPARED], *made[stack_plan.IMAGE]]
    made[stack_plan.SHARED] = shared_folder.register(stack, cluster, image.reference, datasets, nodes, pulled)
    runs: dict[str, JobRun] = {}
    for job in stack.jobs:
        given = _job(stack, job, registration, datasets[job.name], left)
        if job.name not in stack.trials:
            folder, model = paths.models(stack.name), model_path(stack, job, given.run)
            run = follow(given, cluster, folder, model, is_volume=stack.models_are_here)
            runs[job.name], made[stack_plan.of_run(job.name)] = run, [run.last]
        given.component.register_outputs({"run": given.run})
    return runs


def _on_node(stack: Stack, cluster: Cluster) -> list[pulumi.Resource]:
    """Makes the models' folder on our node writable for the trainer, which is not root."""
    config = stack.storage
    if not config.prepares or stack.prepared_by_job or cluster.nodes is None:
        return []
    props = {
        "node": cluster.nodes.apply(lambda nodes: nodes[0]),
        "instance": cluster.cluster_uid,
        "path": volumes.host_path(stack),
        "owner": config.owner,
        "group": config.group,
        "mode": config.mode,
        "users": volumes.users(stack),
    }
    return [NodeDirectory(stack.volume, props, cluster.bound(cluster.provider))]


def _job(
    stack: Stack,
    job: JobConfig,
    registration: Registration,
    dataset: Dataset | None,
    left: Mapping[str, Mapping[str, Any]],
) -> Job:
    """Register the objects of a job. A finished and deleted job is not created again."""
    phase, part = stack_plan.of_job(job.name), pulumi.ComponentResource(agreed.JOB, job.name)
    rows = registration.rows(phase)
    wanted = rows[-1]
    run, ended = run_of(wanted.manifest), left.get(title(wanted.manifest), {})
    ended = ended if ended.get("run") == run else {}
    registration.register(phase, part, without=wanted if ended else None)
    image = registration.pushed(next(each for each in rows if each.image))
    given = context(stack, image, dataset)
    if ended:
        why = f"runPolicy.{agreed.TTL} had it deleted"
        pulumi.log.info(f"{job.name}: the job finished, and {why}; its run {run} stays")
        return Job(job, given, run, part, [], given.namespace, ended["uid"], ended)
    made = registration.made[phase][-1]
    return Job(job, given, run, part, [made], made.metadata["namespace"], made.uid, {})


def model_path(stack: Stack, job: JobConfig, run: str) -> Path:
    """The path of a job's model on this machine: if the stack has one job, the latest model; else the run's model.

    Parameters:
        run: the id of the job's run.
    """
    folder = paths.models(stack.name)
    return (folder if len(stack.own_jobs) == 1 else folder / "runs" / run) / (job.model or "")

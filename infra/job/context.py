"""What a stack decides for each of its jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi

from infra import paths, process
from infra.config import Stack
from infra.config.job import JobConfig
from infra.config.operator import OperatorApi
from infra.config.storage import KeepRuns
from infra.config.training import Dataset
from infra.image import inputs


@dataclass(frozen=True)
class JobContext:
    """What the stack decides for every job.

    Parameters:
        image: the trainer image's reference, by digest; unknown in a preview until the image is pushed.
        stack: the stack's name.
        image_inputs: the identity of the image's contents, without its name: see infra/image/inputs.py.
        namespace: the job's namespace.
        claim: the PersistentVolumeClaim of the models, mounted at `mount_path`.
        dataset: the job's data set; None for the trainer's default.
        nodes: how many nodes run pods.
        keep_runs: how many finished runs stay on the volume, and how old they may become; None keeps all.
        api: whether a job is a PyTorchJob or a TrainJob.
        group: the group of the volume's folder. The pods are in it, and in group 0.
    """

    image: pulumi.Input[str]
    stack: str
    image_inputs: str
    namespace: str
    claim: str
    mount_path: str
    dataset: Dataset | None
    nodes: int = 1
    keep_runs: KeepRuns | None = None
    api: OperatorApi = OperatorApi.V1
    group: int = 0


def context(stack: Stack, image: pulumi.Input[str], dataset: Dataset | None) -> JobContext:
    """The context of a job of `stack`.

    Parameters:
        image: the trainer image's reference, by digest.
        dataset: the job's data set.
    """
    return JobContext(
        image=image,
        stack=stack.name,
        image_inputs=inputs.identity(stack.image, paths.ROOT, process.variables()),
        namespace=stack.cluster.namespace,
        claim=stack.claim,
        mount_path=stack.storage.mount_path,
        dataset=dataset,
        nodes=max(1, stack.cluster.workers),
        keep_runs=stack.storage.keep_runs,
        api=stack.operator.api,
        group=stack.storage.group,
    )


@dataclass(frozen=True)
class Job:
    """A registered job.

    Parameters:
        config: its section of the stack file.
        context: what the stack decides for it.
        run: the id of its run.
        component: the parent of its resources.
        made: its Kubernetes object as a resource; empty if the job has finished and was deleted.
        namespace: the job's namespace.
        uid: the job's uid, also if the job was deleted.
        ended: if the job has finished and was deleted, its run's properties in the state; else empty.
    """

    config: JobConfig
    context: JobContext
    run: str
    component: pulumi.ComponentResource
    made: list[pulumi.Resource]
    namespace: pulumi.Input[str]
    uid: pulumi.Input[str]
    ended: Mapping[str, Any]

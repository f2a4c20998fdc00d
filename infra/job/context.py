"""What a stack decides for each of its jobs."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from infra import paths, volumes
from infra.config import Stack
from infra.config.training import Dataset
from infra.image import inputs
from infra.objects.manifest import read_from


@dataclass(frozen=True)
class JobContext:
    """What the stack decides for every job.

    Parameters:
        image: the trainer image's reference, by digest.
        image_inputs: what the image is made of, whatever its name: see infra/image/inputs.py.
        namespace: the job's namespace.
        claim: the PersistentVolumeClaim of the models, mounted at `mount_path`.
        data_claim: the claim of the data folder; None where the stack has none.
        dataset: what the job trains on; None leaves the trainer's default.
        nodes: how many nodes run pods.
    """

    image: str
    image_inputs: str
    namespace: str
    claim: str
    mount_path: str
    data_claim: str | None
    dataset: Dataset | None
    nodes: int = 1


def context(
    stack: Stack, image: pulumi.Output[str], dataset: Dataset | None, claims: list[pulumi.Resource]
) -> pulumi.Output[JobContext]:
    """The context of a job of `stack`. A job with it is deleted before any of `claims` is.

    Parameters:
        image: the trainer image's reference, by digest.
        dataset: what the job trains on.
        claims: the PersistentVolumeClaims that its pods mount.
    """
    held = [read_from(claim, "") for claim in claims]
    return pulumi.Output.all(image, *held).apply(lambda known: context_of(stack, known[0], dataset))


def context_of(stack: Stack, image: str, dataset: Dataset | None) -> JobContext:
    """The same, from an image's reference that is known."""
    folder = volumes.data(stack)
    return JobContext(
        image=image,
        image_inputs=inputs.identity(stack.image, paths.ROOT),
        namespace=stack.cluster.namespace,
        claim=stack.claim,
        mount_path=stack.storage.mount_path,
        data_claim=folder.claim if folder else None,
        dataset=dataset,
        nodes=max(1, stack.cluster.workers),
    )

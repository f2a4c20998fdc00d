"""The objects of one job in the API that the stack asks for."""

from __future__ import annotations

from infra.config.job import JobConfig
from infra.config.operator import OperatorApi
from infra.job import manifest, trainjob
from infra.job.context import JobContext
from infra.objects.manifest import Manifest


def objects(job: JobConfig, context: JobContext) -> list[Manifest]:
    """The job, last, after what it refers to."""
    if context.api is OperatorApi.V2:
        return trainjob.manifests(job, context)
    return [manifest.manifest(job, context)]

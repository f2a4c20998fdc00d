"""The objects of one job in the API that the stack asks for."""

from __future__ import annotations

from dataclasses import replace

from infra.config.job import JobConfig
from infra.config.operator import OperatorApi
from infra.job import manifest, queue, trainjob
from infra.job.context import JobContext
from infra.objects.manifest import Manifest


def objects(job: JobConfig, context: JobContext) -> list[Manifest]:
    """The job, last, after what it refers to."""
    found = _of_api(job, context)
    return queue.noted(found, _of_api(job, replace(context, image=""))) if job.queue else found


def _of_api(job: JobConfig, context: JobContext) -> list[Manifest]:
    if context.api is OperatorApi.V2:
        return trainjob.manifests(job, context)
    return [manifest.manifest(job, context)]

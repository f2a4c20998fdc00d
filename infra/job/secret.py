"""The Secret with a job's encrypted variables, for its pods."""

from __future__ import annotations

import base64

from infra.config.job import JobConfig
from infra.objects.labels import MANAGED_BY
from infra.objects.manifest import Manifest

VARIABLES = "trainstack/variables"


def name(job: JobConfig) -> str:
    """The Secret's name."""
    return f"{job.name}-env"


def manifest(job: JobConfig, namespace: str) -> Manifest:
    """The Secret without its data, for a review: the names of the variables, not their values."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name(job),
            "namespace": namespace,
            "labels": dict(MANAGED_BY),
            "annotations": {VARIABLES: ", ".join(sorted(job.encrypted))},
        },
        "type": "Opaque",
    }


def data(job: JobConfig) -> dict[str, str]:
    """The Secret's data: variable -> base64. Only the Pulumi program has it: a review has only encrypted values."""
    values = {variable: each.secure.get_secret_value() for variable, each in job.encrypted.items()}
    return {variable: base64.b64encode(text.encode()).decode() for variable, text in values.items()}

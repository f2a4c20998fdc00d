"""The dynamic resource that stands for a finished run."""

from __future__ import annotations

from typing import Any

import pulumi
import urllib3
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException
from pulumi.dynamic import CreateResult, ReadResult, Resource

from infra.dynamic import Props, Provider, missing, own
from infra.objects.api import ApiAddress
from infra.run import job_api, status, waiting


def show(line: str) -> None:
    """Pulumi shows what a plugin prints."""
    print(line, flush=True)


class RunProvider(Provider):
    """Properties: `kubeconfigPath`, `context`, `namespace`, `job`, `uid`, `run`, `rank0`."""

    replaced_by = ("namespace", "job", "uid", "run")

    def create(self, props: Props) -> CreateResult:
        return CreateResult(props["run"], own(props) | waiting.wait(_run(props), props["rank0"]))

    def read(self, id_: str, props: Props) -> ReadResult:
        try:
            job = _run(props).job()
        except (ApiException, ConfigException, urllib3.exceptions.HTTPError):
            return missing()
        if job is None or status.condition(job)[0] != props["jobStatus"]:
            return missing()
        return ReadResult(id_, own(props))


def _run(props: Props) -> job_api.Run:
    return job_api.Run(ApiAddress.of(props), props["namespace"], props["job"], props["uid"], show)


class Run(Resource, module="trainstack", name="Run"):
    """Outputs: `jobStatus`, `accuracy`, `loss`. Made anew when the job is another one."""

    jobStatus: pulumi.Output[str]  # noqa: N815 - Pulumi finds outputs by their names
    accuracy: pulumi.Output[float | None]
    loss: pulumi.Output[float | None]

    def __init__(self, name: str, props: dict[str, Any], opts: pulumi.ResourceOptions) -> None:
        outputs = {"jobStatus": None, "accuracy": None, "loss": None}
        super().__init__(RunProvider(), name, {**props, **outputs}, opts)

"""The images that a stack has built, and those that its jobs run."""

from __future__ import annotations

from infra.config.operator import OperatorApi
from infra.objects.job_kinds import RUNTIME
from tests.e2e.project import Project


def built(project: Project) -> str:
    """The name in the engine of the trainer image that the project's stack has built."""
    script = (
        "from pathlib import Path; from infra import paths; from infra.config import from_file;"
        "from infra.image import inputs;"
        f"config = from_file(Path('stacks/Pulumi.{project.stack}.yaml')).image;"
        "print(f'{inputs.REPOSITORY}:{inputs.tag(config, paths.ROOT)}')"
    )
    return project.run("python", "-c", script).stdout.split()[-1]


def pulled(project: Project, job: str = "pytorch-simple", api: OperatorApi = OperatorApi.V1) -> str:
    """The trainer image of a job that is there, as the cluster pulls it."""
    if api is OperatorApi.V1:
        template = project.get("pytorchjob", job)["spec"]["pytorchReplicaSpecs"]["Master"]["template"]
    else:
        (replicas,) = project.get(RUNTIME.lower(), job)["spec"]["template"]["spec"]["replicatedJobs"]
        template = replicas["template"]["spec"]["template"]
    return str(template["spec"]["containers"][0]["image"])

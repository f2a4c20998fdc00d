"""The images that a stack has built, and those that its jobs run."""

from __future__ import annotations

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


def pulled(project: Project, job: str = "pytorch-simple") -> str:
    """The trainer image of a job that is there, as the cluster pulls it."""
    replicas = project.get("pytorchjob", job)["spec"]["pytorchReplicaSpecs"]
    return str(replicas["Master"]["template"]["spec"]["containers"][0]["image"])

"""A stack of kind `existing` on the cluster of another one."""

from __future__ import annotations

import shutil
from typing import Any

import yaml

from tests.e2e.project import Project


def stack_beside(
    project: Project, name: str, image: str, job: dict[str, Any], storage: dict[str, Any] | None = None
) -> Project:
    """Write the file of another stack on the same cluster, as a user of `existing` would.

    Its kubeconfig is in no clone, as a user's own is not.

    Parameters:
        storage: by default a folder on the first worker. Several nodes share none but the stack's own, on the host.
    """
    own = {"hostPath": f"/var/lib/trainstack/{name}", "node": f"{project.cluster}-worker"}
    kubeconfig = project.root.parent / "kubeconfig.yaml"
    shutil.copy2(project.root / ".trainstack" / "kubeconfig" / f"{project.cluster}.yaml", kubeconfig)
    config = {
        "trainstack:cluster": {
            "kind": "existing",
            "kubeconfig": str(kubeconfig),
        },
        "trainstack:image": {"reference": image},
        "trainstack:storage": storage or own,
        "trainstack:job": {"training": {"dataset": "digits", "epochs": 2}, **job},
    }
    (project.root / "stacks" / f"Pulumi.{name}.yaml").write_text(yaml.safe_dump({"config": config}))
    return Project(project.root, project.cluster, name)

"""A stack of kind `existing` on the cluster of another one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from tests.e2e.project import Project


@contextmanager
def stack_beside(
    project: Project, name: str, image: str, job: dict[str, Any], storage: dict[str, Any] | None = None
) -> Iterator[Project]:
    """Another stack on the same cluster, from its file on, as a user of `existing` would write it.

    When the block ends, the stack is down, and nothing but its models tells of it: the clone's other tests go on.
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
    stack = Project(project.root, project.cluster, name)
    stack.stack_file.write_text(yaml.safe_dump({"config": config}))
    try:
        yield stack
    finally:
        down = stack.make("down")
        # Only a stack that is down can be removed; its file goes with it.
        removed = project.run("pulumi", "stack", "rm", name, "--yes", check=False)
        stack.stack_file.unlink(missing_ok=True)
    assert down.returncode == 0, down.stdout
    assert removed.returncode == 0 or "no stack named" in removed.stderr, removed.stderr

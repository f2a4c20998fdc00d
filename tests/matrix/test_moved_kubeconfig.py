"""The kubeconfig moves, or its context gets another name: the stack file is corrected, and nothing is replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from standins.tests.apiserver import ApiServer
from tests.matrix.judging import uids
from tests.matrix.project import AppliedProject

CONTEXT = "kubernetes-admin@kubernetes"


def write(file: Path, api_server: ApiServer, context: str) -> dict[str, Any]:
    """Write a kubeconfig with this context; the keys of the stack file that name both."""
    found = yaml.safe_load(api_server.kubeconfig.read_text())
    (only,) = found["contexts"]
    file.write_text(
        yaml.safe_dump({**found, "contexts": [{**only, "name": context}], "current-context": context})
    )
    return {"cluster.kubeconfig": str(file), "cluster.context": context}


@pytest.mark.slow(reason="four updates; tests/unit/infra/test_moved_kubeconfig.py asks each provider")
def test_one_update_takes_the_new_address_over(
    project: AppliedProject, api_server: ApiServer, tmp_path: Path
) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    project.up(**write(old, api_server, CONTEXT))
    before = uids(project.settled())
    for file, context in ((new, CONTEXT), (new, "renamed"), (old, CONTEXT)):
        old.unlink(missing_ok=True)
        changed = write(file, api_server, context)
        project.up(**changed)
        assert uids(project.settled()) == before, (file.name, context)
        project.up("--expect-no-changes", **changed)

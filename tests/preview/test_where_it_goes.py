"""Where a stack goes and what it applies was reviewed: another cluster, or another image, is refused in preview."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import agreed
from infra.config.shell_variables import CHANGES, IMAGES
from tests.preview.project import ABSENT, Project
from tests.unit.infra.samples import IMAGE, JOB

FAILED = (1, 255)
REACHED = "https://127.0.0.1:9"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("where"))


@pytest.fixture
def kubeconfig(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one that KUBECONFIG names; nobody listens at its server."""
    file = tmp_path / "config"
    found = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "clusters": [{"name": "here", "cluster": {"server": REACHED}}],
        "users": [{"name": "me", "user": {"token": "planted"}}],
    }
    file.write_text(yaml.safe_dump(found))
    monkeypatch.setitem(project.environment, "KUBECONFIG", str(file))
    return file


def on_existing(**sections: Any) -> dict[str, Any]:
    cluster = {"kind": "existing", **sections.pop("cluster", {})}
    return {"job": JOB, "cluster": cluster, "image": {"reference": IMAGE}, **sections}


def test_another_server_is_refused_before_anything_is_registered(project: Project, kubeconfig: Path) -> None:
    project.configure(on_existing(cluster={"server": "https://reviewed.example"}))
    found = project.preview()
    assert found.status in FAILED, found.shown
    assert found.registered == []
    for said in ("trainstack:cluster.server = 'https://reviewed.example'", REACHED, str(kubeconfig), "fix: "):
        assert said in found.shown, found.shown


def test_a_protected_stack_names_its_cluster(project: Project, kubeconfig: Path) -> None:
    project.configure(on_existing(protected=True))
    found = project.preview()
    assert found.status in FAILED, found.shown
    assert found.registered == []
    assert "context: NAME" in found.shown


VARIABLES = (agreed.OPERATOR_IMAGE, agreed.CPU_BASE, *(name for name in CHANGES if name not in IMAGES))
"""The unit tests have the other images, too."""


def set_by_the_shell(variable: str) -> str:
    """A value that the clone's own set-up has not recorded, and that Pulumi takes."""
    if variable.startswith("PULUMI_K8S_"):
        return "true"
    unique = uuid.uuid4().hex[:12]
    return f"**{unique}" if variable.startswith("PULUMI_OPTION_") else f"trainstack/made:{unique}"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("variable", VARIABLES)
def test_a_variable_of_the_shell_is_refused_for_a_protected_stack(
    project: Project, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    value = set_by_the_shell(variable)
    monkeypatch.setitem(project.environment, variable, value)
    project.configure({"job": JOB, "cluster": {"name": ABSENT}, "protected": True})
    found = project.preview()
    assert found.status in FAILED, found.shown
    assert found.registered == []
    for said in (variable, value, f"fix: unset {variable}"):
        assert said in found.shown, found.shown


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "variable", [agreed.OPERATOR_IMAGE, agreed.CPU_BASE, "PULUMI_K8S_UPSERT_EXISTING_OBJECTS"]
)
def test_a_variable_of_the_shell_is_said_for_another_stack(
    project: Project, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    value = set_by_the_shell(variable)
    monkeypatch.setitem(project.environment, variable, value)
    project.configure({"job": JOB, "cluster": {"name": ABSENT}})
    found = project.preview()
    assert found.status == 0, found.shown
    assert f"{variable}={value} comes from your shell" in found.shown

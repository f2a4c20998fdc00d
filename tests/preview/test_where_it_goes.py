"""Where a stack goes and what it applies was reviewed: another cluster, or another image, is refused in preview."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.config.image_variables import INSTEAD
from tests.preview.project import ABSENT, Project
from tests.unit.infra.samples import IMAGE, JOB

FAILED = (1, 255)
REACHED = "https://127.0.0.1:9"
VARIABLE = "TRAINSTACK_OPERATOR_IMAGE"


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


@pytest.mark.parametrize("protected", [False, True])
def test_an_image_of_the_shell_is_said_or_refused(
    project: Project, monkeypatch: pytest.MonkeyPatch, protected: bool
) -> None:
    """The clone's own set-up may have recorded another one, and not this."""
    assert VARIABLE in INSTEAD
    value = f"trainstack/training-operator:{uuid.uuid4().hex[:12]}"
    monkeypatch.setitem(project.environment, VARIABLE, value)
    project.configure({"job": JOB, "cluster": {"name": ABSENT}, "protected": protected})
    found = project.preview()
    assert (found.status in FAILED) is protected, found.shown
    assert (found.registered == []) is protected
    for said in (VARIABLE, value, f"fix: unset {VARIABLE}"):
        assert said in found.shown, found.shown

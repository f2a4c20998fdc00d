"""Where programs run and how their packages get there: pip and uv, by Pulumi.yaml or by lock file."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
import yaml
from pulumi_standins.language.python_environments import BrokenEnvironmentError, Tool, find

from standins.tests.project import CommandError, Project

pytestmark = pytest.mark.apiserver

WHERE = """
import sys
import pulumi
from pulumi.dynamic import CreateResult, Resource, ResourceProvider
class Provider(ResourceProvider):
    def create(self, props):
        import sys
        return CreateResult('it', {'prefix': sys.prefix})
class It(Resource):
    pass
It(Provider(), 'it', {'prefix': None})
pulumi.export('prefix', sys.prefix)
"""


def set_options(project: Project, **options: str) -> None:
    runtime = {"name": "python", "options": options}
    (project.folder / "Pulumi.yaml").write_text(yaml.safe_dump({"name": "golden", "runtime": runtime}))


def put_on_path(project: Project, name: str, prints: str = "") -> Path:
    """A stand-in for a tool: it writes down how it was called, and prints something."""
    folder = project.folder.parent / "tools"
    folder.mkdir(exist_ok=True)
    calls = folder / f"{name}.calls"
    program = folder / name
    program.write_text(f'#!/bin/sh\necho "$*" >> {calls}\necho "{prints}"\n')
    program.chmod(0o755)
    project.environment["PATH"] = f"{folder}{os.pathsep}{project.environment['PATH']}"
    return calls


@pytest.mark.parametrize("by", ["option", "lock"])
def test_programs_and_dynamic_providers_run_in_the_environment_beside_uvs_lock(
    project: Project, by: str
) -> None:
    set_options(project, **({"toolchain": "uv"} if by == "option" else {}))
    (project.folder / "uv.lock").write_text("version = 1\n")
    (project.folder / ".venv").symlink_to(sys.prefix)
    calls = put_on_path(project, "uv", "what uv says")
    project.write(WHERE)
    project.up()
    allowed = (sys.prefix, str(project.folder / ".venv"))
    assert json.loads(project.pulumi("stack", "output", "--json"))["prefix"] in allowed
    assert project.state()["it"]["outputs"]["prefix"] in allowed
    assert "toolchain='uv'" in project.pulumi("about")
    assert "what uv says" in project.pulumi("install", "--no-plugins")
    assert calls.read_text().splitlines()[-1] == "sync"


@pytest.mark.parametrize("options", [{"toolchain": "poetry"}, {"typechecker": "mypy"}, {}])
def test_what_the_host_does_not_carry_is_refused_by_name(tmp_path: Path, options: dict[str, str]) -> None:
    if not options:
        (tmp_path / "poetry.lock").touch()
    with pytest.raises(BrokenEnvironmentError, match="needs Pulumi's own language host"):
        find(options, root=tmp_path, program=tmp_path)


def test_a_missing_environment_says_what_to_do(project: Project) -> None:
    set_options(project, toolchain="pip", virtualenv="gone")
    project.write("")
    with pytest.raises(CommandError, match="pulumi install"):
        project.up()


def test_install_makes_the_environment_and_shows_what_fails(project: Project) -> None:
    """Without requirements there is nothing to download."""
    set_options(project, toolchain="pip", virtualenv="made")
    project.write("")
    requirements = project.folder / "requirements.txt"
    requirements.write_text("")
    assert "Creating virtual environment" in project.pulumi("install")
    assert (project.folder / "made" / "bin" / "python").exists()
    requirements.write_text("./nothing-here\n")
    with pytest.raises(CommandError, match="nothing-here") as failed:
        project.pulumi("install")
    assert "exited with 1" in failed.value.output


def test_an_unknown_tool_is_refused(project: Project) -> None:
    set_options(project, toolchain="rye")
    project.write("")
    with pytest.raises(CommandError, match="allowed are pip, uv"):
        project.up()


@pytest.mark.parametrize(("lock", "tool"), [("uv.lock", Tool.UV), ("requirements.txt", Tool.PIP)])
def test_the_lock_above_a_program_tells_the_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lock: str, tool: Tool
) -> None:
    (tmp_path / lock).touch()
    program = tmp_path / "deep" / "program"
    program.mkdir(parents=True)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = find({}, root=program, program=program)
    assert found.tool is tool
    assert found.directory == (tmp_path / ".venv" if tool is Tool.UV else None)

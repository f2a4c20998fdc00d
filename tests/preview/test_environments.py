"""A stack that extends a base: Pulumi's own commands apply the effective values, and are told the stack's own keys."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from infra.config import from_file
from infra.config.load import read
from tests.preview.project import ABSENT, Preview, Project
from tests.preview.test_stacks import JOB, reviewed, said

BASE: dict[str, Any] = {
    "cluster": {"name": ABSENT, "workers": 2},
    "job": {
        "name": "mnist",
        "training": {"epochs": 3, "dataset": "digits"},
        "args": ["--a", "--b"],
        "env": {"KEPT": "base", "CHANGED": "base", "GONE": "base"},
    },
    "matrix": {"options": {"training.seed": [1, 2]}},
}
OWN: dict[str, Any] = {
    "extends": "base",
    "cluster": {"workers": None},
    "job": {
        "training": {"epochs": 5},
        "args": [],
        "model": None,
        "env": {"CHANGED": "own", "GONE": None, "TOKEN": {"secure": "a word"}},
    },
    "matrix": None,
}
EFFECTIVE: dict[str, Any] = {
    "cluster": {"name": ABSENT},
    "job": {
        "name": "mnist",
        "training": {"epochs": 5, "dataset": "digits"},
        "args": [],
        "model": None,
        "env": {"KEPT": "base", "CHANGED": "own", "TOKEN": {"secure": "a word"}},
    },
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("extends"))


def extend(project: Project, base: dict[str, Any]) -> None:
    project.configure(OWN)
    config = {f"trainstack:{name}": value for name, value in base.items()}
    (project.stack_file.parent / "base.yaml").write_text(yaml.safe_dump({"config": config}))


def applied(found: Preview) -> list[str]:
    """All inputs, in an order of our own: without those of the provider that Pulumi gives the stack's own keys."""
    return sorted(json.dumps(each) for each in found.inputs if each[0] != "pulumi:providers:pulumi-python")


def test_a_plain_preview_applies_the_effective_values(project: Project) -> None:
    project.configure(EFFECTIVE)
    whole = project.preview()
    assert whole.status == 0, whole.shown
    extend(project, BASE)
    found = project.preview()
    assert found.status == 0, found.shown
    assert applied(found) == applied(whole)
    assert found.registered.count(JOB) == 1
    previewed = [inputs for type_, inputs in found.inputs if type_ == JOB]
    assert [said(job) for job in previewed] == [said(job) for job in reviewed(from_file(project.stack_file))]
    assert '{"name": "CHANGED", "value": "own"}' in json.dumps(previewed)
    assert '{"name": "KEPT", "value": "base"}' in json.dumps(previewed)
    assert "GONE" not in json.dumps(previewed)


def test_pulumi_config_shows_the_stacks_own_keys(project: Project) -> None:
    extend(project, BASE)
    told = project.pulumi("config", "--json", "--stack", "dev").stdout
    shown = json.loads(told[told.index("{") :])  # before it Pulumi warns of a section that is null
    assert set(shown) == {f"trainstack:{name}" for name in OWN}
    assert json.loads(shown["trainstack:cluster"]["value"]) == {"workers": None}
    assert "workers" not in read(project.stack_file)["cluster"]


def test_a_wrong_value_of_the_base_is_refused_with_its_line(project: Project) -> None:
    extend(project, {**BASE, "job": {**BASE["job"], "replicas": {"worker": -1}}})
    text = (project.stack_file.parent / "base.yaml").read_text().splitlines()
    line = 1 + next(place for place, each in enumerate(text) if "worker: -1" in each)
    found = project.preview()
    assert found.status in (1, 255)
    assert f"stacks/base.yaml:{line}: trainstack:job.replicas.worker = -1" in found.shown


def test_another_base_on_the_command_line_is_refused(project: Project) -> None:
    extend(project, BASE)
    other = project.folder / "other.yaml"
    other.write_text(project.stack_file.read_text().replace("extends: base", "extends: other"))
    done = project.pulumi("preview", "--stack", "dev", "--config-file", str(other))
    assert done.returncode in (1, 255), done.stdout
    assert "trainstack:extends" in done.stdout
    assert "as the stack file says" in done.stdout

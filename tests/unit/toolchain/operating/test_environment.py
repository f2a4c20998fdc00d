"""The variables that set-up hands on."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from toolchain.operating import environment
from toolchain.operating.state import Access
from toolchain.paths import COMMAND
from toolchain.tools import venv


def test_exports_survive_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "of the user's shell")
    value = """a 'quoted' "value" $HOME `id` \\"""
    script = f'{environment.exports({"X": value})}\nprintf %s "$X"; printf %s "${{PULUMI_CONFIG_PASSPHRASE-unset}}"'
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == f"{value}unset"


def test_pulumi_follows_more_runs_at_once_than_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PULUMI_PARALLEL", raising=False)
    assert int(environment.local({})["PULUMI_PARALLEL"]) >= 100
    monkeypatch.setenv("PULUMI_PARALLEL", "3")
    assert environment.local({})["PULUMI_PARALLEL"] == "3", "the user knows better"


def test_a_passphrase_of_the_users_shell_does_not_reach_pulumi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "of the user's shell")
    assert "PULUMI_CONFIG_PASSPHRASE" not in environment.for_child({"PATH": "/bin"})


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("config:\n  trainstack:cluster: {name: mine}\n", "mine"),
        ("config:\n  trainstack:cluster: {kind: existing}\n", None),
    ],
)
def test_the_cluster_of_a_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, name: str | None
) -> None:
    """How a stack file may be written is told by tests/unit/infra/config/test_cluster_access.py."""
    monkeypatch.setattr(environment, "STACKS", tmp_path)
    monkeypatch.setattr(venv, "is_complete", lambda: True)
    (tmp_path / "Pulumi.dev.yaml").write_text(text)
    assert environment.cluster("dev") == name
    assert ("KUBECONFIG" in environment.for_stack({}, "dev")) is (name is not None)


@pytest.mark.parametrize("named", ["", ", kubeconfig: /etc/there.yaml", ", context: prod", "all"])
def test_how_a_cluster_that_is_there_is_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.setattr(environment, "STACKS", tmp_path)
    monkeypatch.setattr(venv, "is_complete", lambda: True)
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/missing:{tmp_path}")
    named = ", kubeconfig: /etc/there.yaml, context: prod" if named == "all" else named
    (tmp_path / "Pulumi.dev.yaml").write_text(f"config:\n  trainstack:cluster: {{kind: existing{named}}}\n")
    file = "/etc/there.yaml" if "there" in named else str(tmp_path)
    assert environment.access("dev") == Access(file, "prod" if "prod" in named else None)


def test_before_the_models_are_installed_no_cluster_is_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(venv, "is_complete", lambda: False)
    assert environment.cluster("dev") is None
    assert environment.access("dev") is None
    assert "KUBECONFIG" not in environment.for_stack({}, "dev")


def test_links_are_exactly_those_asked_for_and_our_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "LINKS", tmp_path / "bin")
    environment.link([("kind", Path("/bin/true")), ("pulumi", Path("/bin/true"))])
    environment.link([("kind", Path("/bin/false"))])
    found = {link.name: os.readlink(link) for link in (tmp_path / "bin").iterdir()}
    assert found == {"kind": "/bin/false", "trainstack": str(COMMAND)}


def test_a_set_up_whose_tools_are_gone_counts_as_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, path in (("LINKS", "bin"), ("FILE", "env.json"), ("VENV", "venv"), ("LOCAL", "")):
        monkeypatch.setattr(environment, name, tmp_path / path)
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    tool = tmp_path / "kind"
    tool.touch()
    environment.link([("kind", tool)])
    environment.save({"TRAINSTACK_NODE_IMAGE": "node"})
    assert environment.load() == {"TRAINSTACK_NODE_IMAGE": "node"}
    tool.unlink()
    assert environment.load() is None


def test_a_file_is_written_whole_with_its_mode(tmp_path: Path) -> None:
    environment.write_whole(tmp_path / "file", "text", mode=0o600)
    assert (tmp_path / "file").read_text() == "text"
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["file"]

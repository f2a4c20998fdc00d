"""Which of the user's own tools are used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.conftest import Fake
from toolchain.tools import go_modules, installed


def kubectl(newer: int, rest: str) -> str:
    """A script that prints a version `newer` minor numbers above that of the Kubernetes which we build."""
    major, minor = go_modules.load("kubernetes").version.split(".")[:2]
    version = f"v{major}.{int(minor) + newer}.{rest}"
    return f"""echo '{{"clientVersion": {{"gitVersion": "{version}"}}}}'"""


@pytest.mark.parametrize(
    ("name", "script", "good"),
    [
        ("kind", "echo 0.33.0", True),
        ("kind", "echo 0.24.0", True),
        ("kind", "echo 0.23.9", False),
        ("kind", "exit 1", False),
        ("kind", "echo nonsense", False),
        ("kubectl", kubectl(0, "4"), True),
        ("kubectl", kubectl(-1, "0"), True),
        ("kubectl", kubectl(1, "1"), True),
        ("kubectl", kubectl(-10, "4-dispatcher"), True),
        ("kubectl", kubectl(9, "0"), True),
        ("kubectl", """echo '{"clientVersion": {"gitVersion": "v1.21.0"}}'""", True),
        ("kubectl", """echo '{"clientVersion": {"gitVersion": "v1.20.15"}}'""", False),
        ("kubectl", """echo '{"clientVersion": {"gitVersion": "v2.0.0"}}'""", False),
        ("pulumi", "echo v3.200.0", True),
        ("pulumi", "echo v3.199.0", False),
        ("pulumi", "echo v4.0.0", False),
    ],
)
def test_a_tool_is_judged_by_the_version_it_prints(fake: Fake, name: str, script: str, good: bool) -> None:
    program = fake(name, script)
    fake("pulumi-language-python", "")
    assert installed.find(name) == (program if good else None)


def test_pulumi_without_its_language_host_will_not_do(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    program = fake("pulumi", "echo v3.246.0")
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    assert installed.find("pulumi") is None


def test_the_language_host_may_lie_where_a_link_leads(fake: Fake, tmp_path: Path) -> None:
    real = tmp_path / "opt"
    real.mkdir()
    for name in ("pulumi", "pulumi-language-python"):
        (real / name).write_text("#!/bin/sh\necho v3.246.0\n")
        (real / name).chmod(0o755)
    link = fake("pulumi", "")
    link.unlink()
    link.symlink_to(real / "pulumi")
    assert installed.find("pulumi") == link


def test_what_make_env_put_on_path_is_not_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / ".trainstack" / "bin").mkdir(parents=True)
    (tmp_path / "mine" / ".venv" / "bin").mkdir(parents=True)
    linked = [other / ".trainstack/bin", other / ".trainstack/bin/pulumi"]
    folders = [*linked, other / ".venv/bin", tmp_path / "mine/.venv/bin", Path("/usr/bin")]
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, folders)))
    assert installed.user_path().split(os.pathsep) == [str(tmp_path / "mine/.venv/bin"), "/usr/bin"]

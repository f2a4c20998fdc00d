"""The sources are formatted, linted, typed and bordered as pyproject.toml says; the hooks check the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CHECKS: list[list[str]] = [
    ["ruff", "check", "--quiet"],
    ["ruff", "format", "--check", "--quiet"],
    ["mypy"],
    ["lint-imports", "--no-logo"],
]
PROGRAMS = Path(sys.executable).parent


@pytest.mark.parametrize("check", CHECKS, ids=" ".join)
def test_the_sources_pass(check: list[str]) -> None:
    done = subprocess.run([f"{PROGRAMS}/{check[0]}", *check[1:]], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_hooks_before_a_commit_run_these_checks_and_no_others() -> None:
    hooks = [hook for repo in _hooks()["repos"] for hook in repo["hooks"]]
    assert [hook["entry"] for hook in hooks] == [f".venv/bin/{' '.join(check)}" for check in CHECKS]


def test_the_hooks_fetch_nothing() -> None:
    assert {repo["repo"] for repo in _hooks()["repos"]} == {"local"}
    assert {hook["language"] for repo in _hooks()["repos"] for hook in repo["hooks"]} == {"system"}


def test_pre_commit_accepts_its_configuration() -> None:
    command = [f"{PROGRAMS}/pre-commit", "validate-config"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def _hooks() -> Any:
    return yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())

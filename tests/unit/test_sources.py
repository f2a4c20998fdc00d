"""The sources are formatted, linted and typed as pyproject.toml says, and the hooks before a commit check the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CHECKS = [["ruff", "check", "--quiet"], ["ruff", "format", "--check", "--quiet"], ["mypy"]]


@pytest.mark.parametrize("check", CHECKS, ids=" ".join)
def test_the_sources_pass(check: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", *check], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_hooks_before_a_commit_run_these_checks_and_no_others() -> None:
    hooks = [hook for repo in _hooks()["repos"] for hook in repo["hooks"]]
    assert [hook["entry"] for hook in hooks] == [f".venv/bin/python -m {' '.join(check)}" for check in CHECKS]


def test_the_hooks_fetch_nothing() -> None:
    assert {repo["repo"] for repo in _hooks()["repos"]} == {"local"}
    assert {hook["language"] for repo in _hooks()["repos"] for hook in repo["hooks"]} == {"system"}


def test_pre_commit_accepts_its_configuration() -> None:
    command = [sys.executable, "-m", "pre_commit", "validate-config"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def _hooks() -> Any:
    return yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())

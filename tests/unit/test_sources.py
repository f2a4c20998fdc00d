"""The sources are formatted, linted and typed as pyproject.toml says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "check",
    [["ruff", "check", "--quiet"], ["ruff", "format", "--check", "--quiet"], ["mypy"]],
    ids=" ".join,
)
def test_the_sources_pass(check: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", *check], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr

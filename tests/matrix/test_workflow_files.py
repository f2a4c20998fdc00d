"""The workflow files that users copy are valid: for GitHub by actionlint."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from infra import paths

OF_GITHUB = sorted((paths.ROOT / "ci" / "github").glob("*.yml"))


def actionlint(file: Path) -> subprocess.CompletedProcess[str]:
    if shutil.which("actionlint") is None:
        pytest.fail("not on PATH: actionlint", pytrace=False)
    # What else is on this machine shall make no difference.
    command = ["actionlint", "-shellcheck=", "-pyflakes=", "-no-color", str(file)]
    return subprocess.run(command, cwd=paths.ROOT, capture_output=True, text=True)


@pytest.mark.parametrize("file", OF_GITHUB, ids=lambda file: file.stem)
def test_github_takes_the_file(file: Path) -> None:
    done = actionlint(file)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("runs-on:", "run-on:"),
        ("pull_request\n", "pull_requested\n"),
        ("contents: read", "contents: look"),
        ('run: ci/review "$BASE"', "run: ci/review ${{ github.event.pull_request.title }}"),
    ],
)
def test_a_mistake_is_found(tmp_path: Path, right: str, wrong: str) -> None:
    text = (paths.ROOT / "ci" / "github" / "review.yml").read_text()
    assert right in text
    (tmp_path / "review.yml").write_text(text.replace(right, wrong))
    assert actionlint(tmp_path / "review.yml").returncode == 1

"""The workflow files that users copy: valid by actionlint, and safe by zizmor."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from infra import paths
from toolchain.paths import LOCAL
from toolchain.tools import venv

OF_GITHUB = sorted((paths.ROOT / "ci" / "github").glob("*.yml"))
LOCK = paths.ROOT / "requirements-workflows.lock"


def actionlint(file: Path) -> subprocess.CompletedProcess[str]:
    if shutil.which("actionlint") is None:
        pytest.fail("not on PATH: actionlint", pytrace=False)
    # What else is on this machine shall make no difference.
    command = ["actionlint", "-shellcheck=", "-pyflakes=", "-no-color", str(file)]
    return subprocess.run(command, cwd=paths.ROOT, capture_output=True, text=True)


@pytest.fixture(scope="module")
def zizmor() -> Path:
    return venv.ensure_beside(LOCAL / "zizmor", LOCK) / "zizmor"


def audited(zizmor: Path, file: Path) -> subprocess.CompletedProcess[str]:
    """With every rule that zizmor has but for those that ask GitHub."""
    options = [
        "--offline",
        "--no-config",
        "--no-progress",
        "--color=never",
        "--persona=auditor",
        "--format=plain",
    ]
    return subprocess.run([zizmor, *options, str(file)], cwd=paths.ROOT, capture_output=True, text=True)


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


@pytest.mark.parametrize("file", OF_GITHUB, ids=lambda file: file.stem)
def test_a_file_has_no_finding(zizmor: Path, file: Path) -> None:
    done = audited(zizmor, file)
    assert done.returncode == 0, done.stdout + done.stderr


def test_one_finding_is_passed_over() -> None:
    """The trigger that a comment needs; tests/unit/test_workflow_rights.py holds what runs by it."""
    passed = [found for file in OF_GITHUB for found in re.findall(r"zizmor: (\S+)", file.read_text())]
    assert passed == ["ignore[dangerous-triggers]"]


@pytest.mark.parametrize(
    ("name", "right", "wrong", "finding"),
    [
        ("review", r"@[0-9a-f]{40} # v\S+", "@v4", "unpinned-uses"),
        ("review", r"persist-credentials: false", "clean: true", "artipacked"),
        ("review", r"permissions: \{\}", "permissions: write-all", "excessive-permissions"),
        ("review", r"on: pull_request", "on: pull_request_target", "dangerous-triggers"),
        ("review", r'"\$BASE"', "${{ github.event.pull_request.title }}", "template-injection"),
        ("comment", r" # zizmor: .*", "", "dangerous-triggers"),
        ("drift", r"    environment: .*\n", "", "secrets-outside-env"),
        ("test", r"@sha256:[0-9a-f]{64}", "", "unpinned-images"),
    ],
)
def test_a_danger_is_found(
    zizmor: Path, tmp_path: Path, name: str, right: str, wrong: str, finding: str
) -> None:
    text, changes = re.subn(right, wrong, (paths.ROOT / "ci" / "github" / f"{name}.yml").read_text())
    assert changes
    (tmp_path / f"{name}.yml").write_text(text)
    done = audited(zizmor, tmp_path / f"{name}.yml")
    assert done.returncode > 10, done.stdout + done.stderr
    assert f"[{finding}]" in done.stdout

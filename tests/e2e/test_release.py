"""`ci/release`: it builds what a tag publishes, and a user trains from the unpacked archive."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.e2e import clones
from tests.e2e.project import Project
from toolchain.machine.engine import Engine

pytestmark = pytest.mark.slow(reason="a cluster of its own, one training")
SECTION = "## [{}] - 2026-01-01\n\n### Added\n\n- What is new.\n\n## [Unreleased]\n"


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True)


def release(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([folder / "ci" / "release", *words], cwd=folder, capture_output=True, text=True)


def test_what_a_tag_publishes_is_whole_and_trains(engine: Engine, tmp_path: Path) -> None:
    with clones.owned("release") as folder:
        source = clones.clone(folder / "source", folder.name)
        told = subprocess.run(
            ["python3", "-m", "toolchain", "--version"], cwd=source.root, capture_output=True, text=True
        )
        version = told.stdout.split()[1]
        assert "does not name version" in release(source.root, "v0.0.1", str(tmp_path)).stderr
        assert "does not name the current commit" in release(source.root, f"v{version}", str(tmp_path)).stderr

        changes = (source.root / "CHANGELOG.md").read_text().replace(f"## [{version}]", "## [of another]")
        (source.root / "CHANGELOG.md").write_text(changes)
        git(source.root, "commit", "--quiet", "--all", "--allow-empty", "--message", "no section")
        git(source.root, "tag", f"v{version}")
        assert "has no section" in release(source.root, f"v{version}", str(tmp_path)).stderr

        (source.root / "CHANGELOG.md").write_text(
            changes.replace("## [", SECTION.format(version) + "## [", 1)
        )
        git(source.root, "commit", "--quiet", "--all", "--message", "a section")
        git(source.root, "tag", "--force", f"v{version}")
        done = release(source.root, f"v{version}", str(tmp_path))
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "notes.md").read_text() == "\n### Added\n\n- What is new.\n\n"
        subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=tmp_path, check=True)
        bill = (tmp_path / f"trainstack-{version}.cdx.json").read_text()
        assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill) is None

        with tarfile.open(tmp_path / f"trainstack-{version}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
        unpacked = Project(folder / f"trainstack-{version}", folder.name, "dev")
        with clones.standing(unpacked):
            up = unpacked.make("up")
            assert up.returncode == 0, up.stdout
            assert "\njob: kubeflow/pytorch-simple Succeeded\n" in up.stdout
        assert (unpacked.models / "mnist_cnn.pt").is_file()

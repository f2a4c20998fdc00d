"""The present tree refreshes, updates and destroys a stack that an older commit made: same cluster, same model."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from tests.e2e import clones
from tests.e2e.project import ROOT, Project
from tests.e2e.test_repair import containers, model

pytestmark = pytest.mark.slow(
    reason="two clusters' worth of set-up: the older commit's tools, images and training"
)
COMMIT = "4e9ca64"
"""The oldest one whose stacks the present tree takes over. No release was tagged before it."""


def archive() -> bytes:
    """The tree of COMMIT as a tar file. Fails where this clone's history does not reach so far."""
    done = subprocess.run(["git", "archive", COMMIT], cwd=ROOT, capture_output=True)
    if done.returncode:
        said, fix = done.stderr.decode().strip(), "git fetch --unshallow"
        pytest.fail(f"commit {COMMIT} is not in this clone's history ({said}); run `{fix}`", pytrace=False)
    return done.stdout


@pytest.fixture
def older() -> Iterator[Project]:
    """A folder with the tree of COMMIT, its stack up."""
    tree = archive()
    with clones.owned("takeover") as folder:
        root = folder / "trainstack"
        with tarfile.open(fileobj=BytesIO(tree)) as files:
            files.extractall(root, filter="data")
        project = Project(root, folder.name)
        project.configure({"trainstack:cluster": {"name": folder.name}})
        with clones.standing(project):
            project.up(timeout=3600)
            yield project


def put_present_tree(project: Project) -> None:
    """The folder's tracked files become those of this tree, as `git checkout` would do; its stack file stays."""
    kept = project.stack_file.read_text()
    for path in project.root.iterdir():
        if path.name not in (".trainstack", ".venv", "models", "data"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    clones.copy_working_tree(project.root)
    project.stack_file.write_text(kept)


def results(project: Project) -> dict[str, str]:
    """SHA-256 of each run's model, by its path."""
    found = (project.models / "runs").glob("*/mnist_cnn.pt")
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def test_a_stack_of_an_older_commit_keeps_its_cluster_and_its_model(older: Project) -> None:
    before, made = containers(older), results(older)
    assert made, "or this test shows nothing"
    put_present_tree(older)

    older.up()  # it refreshes first

    assert containers(older) == before
    assert made.items() <= results(older).items(), "a changed trainer trains again, and keeps what was there"
    weights = model(older)
    older.run("pulumi", "refresh", "--yes", "--expect-no-changes", "--stack", older.stack)
    unchanged = older.up()
    assert " unchanged" in unchanged["output"]
    assert "replaced" not in unchanged["output"]
    assert containers(older) == before

    down = older.make("down")
    assert down.returncode == 0, down.stdout
    assert containers(older) == {}
    assert model(older) == weights, "the model outlives its cluster"
    assert not list(Path(older.root, ".trainstack", "clusters").glob("*"))

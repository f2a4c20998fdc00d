"""What a user can get wrong: an early, plain error with the fix, a non-zero exit, and nothing lost."""

from __future__ import annotations

import gzip
import subprocess
from pathlib import Path

from tests.e2e.project import ROOT, clean_environment
from tests.e2e.waiting import HANG_S

LATE = ("build ", "node image", "pulumi up")
"""What the steps are called that cost minutes, or touch a cluster."""


def refused(*arguments: str, **environment: str) -> str:
    """What `make up` says, which has to fail before any tool is built and any cluster touched."""
    done = subprocess.run(
        ["make", "up", *arguments],
        cwd=ROOT,
        env={**clean_environment(), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=HANG_S,
    )
    assert done.returncode != 0, done.stdout
    assert not [line for line in done.stdout.splitlines() if line.lstrip(" ✓✗…").startswith(LATE)], (
        done.stdout
    )
    return done.stdout


def test_an_unknown_stack_is_refused_with_the_stacks_there_are() -> None:
    said = refused("STACK=devv")
    assert "devv" in said
    for stack in ROOT.glob("stacks/Pulumi.*.yaml"):
        assert stack.name.split(".")[1] in said


def test_an_engine_that_does_not_answer_is_named() -> None:
    said = refused(DOCKER_HOST="unix:///nonexistent/docker.sock")
    assert "unix:///nonexistent/docker.sock" in said
    assert "unset DOCKER_HOST" in said


def idx(path: Path, dimensions: tuple[int, ...]) -> None:
    """A well-formed IDX file of zeros: right shape, wrong content."""
    header = bytes([0, 0, 8, len(dimensions)]) + b"".join(size.to_bytes(4, "big") for size in dimensions)
    count = 1
    for size in dimensions:
        count *= size
    path.write_bytes(gzip.compress(header + bytes(count), compresslevel=1))


def test_a_corrupted_data_file_is_named_with_both_checksums(tmp_path: Path) -> None:
    idx(tmp_path / "train-images-idx3-ubyte.gz", (60000, 28, 28))
    idx(tmp_path / "train-labels-idx1-ubyte.gz", (60000,))
    idx(tmp_path / "t10k-images-idx3-ubyte.gz", (10000, 28, 28))
    idx(tmp_path / "t10k-labels-idx1-ubyte.gz", (10000,))
    before = sorted(ROOT.glob("data/**/*"))

    said = refused(f"DATA_DIR={tmp_path}")

    assert "train-images-idx3-ubyte" in said
    assert "6bbc9ace898e44ae57da46a324031adb" in said, "the expected checksum"
    assert "download the file again" in said
    assert sorted(ROOT.glob("data/**/*")) == before, "nothing of it was copied"


def test_a_data_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    said = refused(f"DATA_DIR={tmp_path}/nowhere")
    assert f"{tmp_path}/nowhere" in said

"""What a user can get wrong: an early, plain error with the fix, a non-zero exit, and nothing lost."""

from __future__ import annotations

import gzip
import subprocess
from pathlib import Path

from tests.e2e.project import ROOT, clean_environment

EARLY_S = 20
"""Longest a refusal may take: before any tool is built or any cluster is touched."""


def make(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", *arguments],
        cwd=ROOT,
        env={**clean_environment(), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=EARLY_S,
    )


def test_an_unknown_stack_is_refused_with_the_stacks_there_are() -> None:
    done = make("up", "STACK=devv")
    assert done.returncode != 0
    assert "devv" in done.stdout
    for stack in ROOT.glob("stacks/Pulumi.*.yaml"):
        assert stack.name.split(".")[1] in done.stdout


def test_an_engine_that_does_not_answer_is_named() -> None:
    done = make("up", DOCKER_HOST="unix:///nonexistent/docker.sock")
    assert done.returncode != 0
    assert "unix:///nonexistent/docker.sock" in done.stdout
    assert "unset DOCKER_HOST" in done.stdout


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

    done = make("up", f"DATA_DIR={tmp_path}")

    assert done.returncode != 0
    assert "train-images-idx3-ubyte" in done.stdout
    assert "6bbc9ace898e44ae57da46a324031adb" in done.stdout, "the expected checksum"
    assert sorted(ROOT.glob("data/**/*")) == before, "nothing of it was copied"


def test_a_data_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = make("up", f"DATA_DIR={tmp_path}/nowhere")
    assert done.returncode != 0
    assert f"{tmp_path}/nowhere" in done.stdout

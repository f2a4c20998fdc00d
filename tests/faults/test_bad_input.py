"""What a user can get wrong: an early, plain error with the fix, a non-zero exit, and nothing lost."""

from __future__ import annotations

import gzip
import subprocess
from pathlib import Path

import pytest

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


STACKS = [file.name.split(".")[1] for file in ROOT.glob("stacks/Pulumi.*.yaml")]
NO_ENGINE = "unix:///nonexistent/docker.sock"


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        (["STACK=devv"], {}, ["devv", *STACKS]),
        ([], {"DOCKER_HOST": NO_ENGINE}, [NO_ENGINE, "unset DOCKER_HOST"]),
        (["DATA_DIR=/nonexistent/data"], {}, ["/nonexistent/data"]),
    ],
    ids=["stack", "engine", "data folder"],
)
def test_what_is_not_there_is_named(
    arguments: list[str], environment: dict[str, str], words: list[str]
) -> None:
    said = refused(*arguments, **environment)
    assert [word for word in words if word not in said] == [], said


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

"""The committed renderings are those of the committed stacks: `make review STACK=<stack>` makes them so."""

from __future__ import annotations

import os
import subprocess

import pytest

from infra import paths
from infra.config import from_file
from infra.review import folder

STACKS = sorted((paths.ROOT / "stacks").glob("Pulumi.*.yaml"))


@pytest.mark.parametrize("path", STACKS, ids=lambda path: path.stem)
def test_is_up_to_date(path: os.PathLike[str]) -> None:
    known = from_file(paths.ROOT / path)
    difference = folder.stale(folder.STACKS, known.name, folder.files(known))
    assert difference == "", f"run `make review STACK={known.name}` and commit what it changes:\n{difference}"


def test_nothing_else_lies_below_stacks() -> None:
    """Whoever applies a folder would apply it, too."""
    wanted = {str(path.relative_to(folder.STACKS)) for path in STACKS}
    for path in STACKS:
        wanted |= folder.files(from_file(path)).keys()
    listed = subprocess.check_output(["git", "ls-files", "stacks"], cwd=paths.ROOT, text=True).split()
    assert {name.removeprefix("stacks/") for name in listed} == wanted

"""The committed renderings are those of the committed stacks: `make review STACK=<stack>` makes them so."""

from __future__ import annotations

import os
import shutil

import pytest

from infra import paths
from infra.config import from_file
from infra.review import folder, gitops, rendering
from infra.training_operator import overlay

STACKS = sorted((paths.ROOT / "stacks").glob("Pulumi.*.yaml"))


def with_operator(stack: str) -> tuple[str, ...]:
    """What has or names the operator's objects."""
    of_engines = f"{folder.GITOPS}/{stack}"
    operators = [f"{each}/{folder.OPERATOR}" for each in (f"{folder.RENDERED}/{stack}", of_engines)]
    return (*operators, *folder.SHARED.values(), f"{of_engines}/{gitops.KUSTOMIZATION}")


@pytest.mark.parametrize("path", STACKS, ids=lambda path: path.stem)
def test_is_up_to_date(path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch) -> None:
    known = from_file(paths.ROOT / path)
    # Without kubectl and the overlay only what is ours can be rendered; the end-to-end test compares the rest.
    whole = shutil.which("kubectl") is not None and overlay.OVERLAY in os.environ
    if not whole:
        monkeypatch.setattr(rendering, "operator", lambda stack, planned: [])
    skip = () if whole else with_operator(known.name)
    difference = folder.stale(folder.STACKS, known.name, folder.files(known), skip)
    assert difference == "", f"run `make review STACK={known.name}` and commit what it changes:\n{difference}"

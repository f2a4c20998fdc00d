"""What the state says of a stack, and of operations of a Pulumi that was killed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolchain.operating import recovery, state_copies


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(state_copies, "STACKS", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("latest", "pending", "resources"),
    [
        ({"pending_operations": [{"type": "creating"}]}, True, True),
        ({"resources": [{"urn": "urn:pulumi:dev"}]}, False, True),
        ({}, False, False),
        (None, False, False),
    ],
)
def test_what_the_state_says_of_a_stack(
    state: Path, latest: dict[str, object] | None, pending: bool, resources: bool
) -> None:
    (state / "dev.json").write_text(json.dumps({"version": 3, "checkpoint": {"latest": latest}}))
    found = recovery.deployment("dev")
    assert recovery.has_pending(found) is pending
    assert recovery.has_resources(found) is resources


def test_a_stack_that_never_was_up_has_nothing(state: Path) -> None:
    assert not recovery.has_resources(recovery.deployment("never"))

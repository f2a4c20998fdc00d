"""What was applied last, from the history that Pulumi's file backend keeps."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from datetime import datetime

import pytest

from toolchain.operating import quick_drift

NOON = datetime(2026, 11, 23, 12)
FIRST = 1_795_415_002_453_779_759
Operation = tuple[str, str]


@pytest.fixture
def history() -> Iterator[Callable[..., None]]:
    """Let the history of `dev` hold these operations with their results, a minute after each other."""
    folder = quick_drift.HISTORY / "dev"
    folder.mkdir(parents=True)

    def holds(*operations: Operation) -> None:
        for place, (kind, result) in enumerate(operations):
            ended = NOON.timestamp() + 60 * place
            told = {"kind": kind, "result": result, "endTime": ended, "config": {"place": place}}
            (folder / f"dev-{FIRST + place}.history.json").write_text(json.dumps(told))
            (folder / f"dev-{FIRST + place}.checkpoint.json").write_text("{}")

    yield holds
    shutil.rmtree(folder)


UP, FAILED, DOWN = ("update", "succeeded"), ("update", "failed"), ("destroy", "succeeded")
REFRESH, IMPORT = ("refresh", "succeeded"), ("resource-import", "succeeded")


@pytest.mark.parametrize(
    ("operations", "place", "failed"),
    [
        ([UP], 0, None),
        ([UP, UP], 1, None),
        ([UP, REFRESH, IMPORT, ("refresh", "failed")], 0, None),
        ([UP, FAILED], 0, 1),
        ([UP, FAILED, REFRESH, FAILED], 0, 3),
        ([UP, FAILED, UP], 2, None),
        ([UP, DOWN, UP], 2, None),
    ],
)
def test_the_last_update_that_succeeded_counts(
    history: Callable[..., None], operations: list[Operation], place: int, failed: int | None
) -> None:
    history(*operations)
    found = quick_drift.last_update("dev")
    assert found is not None
    assert (found.config, found.ended) == ({"place": place}, NOON.replace(minute=place))
    assert found.failed == (None if failed is None else NOON.replace(minute=failed))


@pytest.mark.parametrize(
    "operations", [[], [FAILED], [UP, DOWN], [UP, ("destroy", "failed")], [UP, DOWN, REFRESH]]
)
def test_there_is_none(history: Callable[..., None], operations: list[Operation]) -> None:
    history(*operations)
    assert quick_drift.last_update("dev") is None


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"kind": "update"', '{"kind": 1, "result": 2, "endTime": {}}']
)
def test_a_history_that_is_torn_tells_nothing(history: Callable[..., None], text: str) -> None:
    history(UP, UP)
    (quick_drift.HISTORY / "dev" / f"dev-{FIRST + 2}.history.json").write_text(text)
    assert quick_drift.last_update("dev") is None


def test_of_a_stack_that_was_never_up_there_is_none() -> None:
    assert quick_drift.last_update("never") is None

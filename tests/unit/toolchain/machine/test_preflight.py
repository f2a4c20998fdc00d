"""What is checked before any work starts."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from toolchain.machine import preflight
from toolchain.steps import SetupError


class Usage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.mark.parametrize(("free", "enough"), [(12, True), (11, False)])
def test_room_is_asked_for_all_that_grows_on_a_disk_and_a_fifth_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, enough: bool
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(100 * preflight.GIB, 0, free * preflight.GIB))
    grows = [(tmp_path / "a" / "b", 4 * preflight.GIB), (tmp_path, 6 * preflight.GIB)]
    if enough:
        preflight.check_space(grows)
    else:
        with pytest.raises(SetupError, match=r"11\.0 GiB are free .*12\.0 GiB are needed"):
            preflight.check_space(grows)


def test_building_needs_more_room_than_running() -> None:
    assert sum(size for _, size in preflight.needs(builds=True)) > sum(
        size for _, size in preflight.needs(builds=False)
    )

"""What is checked before any work starts; an error names the disk that was full while the command worked."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
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


@pytest.mark.parametrize("holds_cache", [True, False])
def test_only_the_disk_of_the_cache_is_relieved_by_another_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, holds_cache: bool
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(GIB, GIB, 0))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    folder = tmp_path / "caches" / "trainstack" / "wheels" if holds_cache else tmp_path / "clone"
    with pytest.raises(SetupError) as raised:
        preflight.check_space([(folder, GIB)])
    assert ("XDG_CACHE_HOME" in raised.value.fix) is holds_cache


def test_building_needs_more_room_than_running() -> None:
    assert sum(size for _, size in preflight.needs(builds=True)) > sum(
        size for _, size in preflight.needs(builds=False)
    )


GIB = 1 << 30


class Disk:
    """The only one; `free` bytes of it now, and whether it was looked at since that was set."""

    def __init__(self) -> None:
        self.free = GIB
        self.looked_at = False

    def usage(self, _: Path) -> Usage:
        found = Usage(GIB, GIB - self.free, self.free)
        self.looked_at = True
        return found

    def runs_full(self) -> None:
        self.free, self.looked_at = 3 << 20, False

    def has_room_again(self) -> None:
        """Once somebody has looked."""
        while not self.looked_at:
            time.sleep(0.01)
        self.free = GIB


@preflight.watched()
def fail(*before: Callable[[], None], error: Exception) -> None:
    for each in before:
        each()
    raise error


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Disk:
    made = Disk()
    monkeypatch.setattr(shutil, "disk_usage", made.usage)
    monkeypatch.setattr(preflight, "disks", lambda: [tmp_path])
    monkeypatch.setattr(preflight, "SAMPLE_S", 0.01)
    return made


def test_a_disk_that_has_room_again_is_named(disk: Disk, tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="no cluster") as raised:
        fail(disk.runs_full, disk.has_room_again, error=SetupError("no cluster", "make status"))
    assert f"No space left on device: 3 MiB were free on the disk of {tmp_path}" in raised.value.what
    assert raised.value.fix == "free some space on each disk that is named above"


def test_a_disk_that_is_full_at_the_end_is_named(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "SAMPLE_S", 1000)
    with pytest.raises(SetupError, match="No space left on device"):
        fail(disk.runs_full, error=SetupError("no cluster"))


def test_an_error_with_room_everywhere_stays_as_it_is(disk: Disk) -> None:
    error = SetupError("no cluster", "make status")
    with pytest.raises(SetupError) as raised:
        fail(error=error)
    assert raised.value is error


def test_what_says_that_there_is_no_room_says_it_once(disk: Disk, tmp_path: Path) -> None:
    disk.runs_full()
    with pytest.raises(SetupError) as raised, preflight.watched():
        preflight.check_space([(tmp_path, GIB)])
    assert str(raised.value).count("free on the disk of") == 1


def test_a_full_disk_that_stops_nothing_is_not_told(disk: Disk) -> None:
    disk.runs_full()
    with preflight.watched():
        pass


def test_each_disk_is_looked_at_once() -> None:
    found = preflight.disks()
    assert found
    assert len({folder.stat().st_dev for folder in found}) == len(found)

"""A lock keeps others out, also where its file is removed while they wait."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO

import pytest

from toolchain.machine import locks

HANG_S = 600


class Process:
    """A thread that takes the lock and holds it until it is told to let go."""

    def __init__(self, file: Path, removes: bool = False) -> None:
        self.file, self.removes = file, removes
        self.waits, self.has_it, self.lets_go = threading.Event(), threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._hold)
        self.thread.start()

    def _hold(self) -> None:
        with locks.held(self.file, self._waiting):
            if self.removes:
                self.file.unlink()
            self.has_it.set()
            self.lets_go.wait(HANG_S)

    def _waiting(self, _: IO[str]) -> AbstractContextManager[object]:
        self.waits.set()
        return nullcontext()

    def end(self) -> None:
        self.lets_go.set()
        self.thread.join(HANG_S)


@pytest.mark.parametrize("removes", [False, True], ids=["the file stays", "the file is removed"])
def test_one_at_a_time(tmp_path: Path, removes: bool) -> None:
    file = tmp_path / "lock"
    first = Process(file)
    assert first.has_it.wait(HANG_S)
    second = Process(file)
    assert second.waits.wait(HANG_S)
    if removes:
        file.unlink()
    first.end()
    assert second.has_it.wait(HANG_S)
    third = Process(file)
    assert third.waits.wait(HANG_S), "the second has it"
    assert not third.has_it.is_set()
    second.end()
    assert third.has_it.wait(HANG_S)
    third.end()


def test_who_removes_the_file_holds_it_to_the_end(tmp_path: Path) -> None:
    cleaner = Process(tmp_path / "lock", removes=True)
    assert cleaner.has_it.wait(HANG_S)
    assert not (tmp_path / "lock").exists()
    cleaner.end()

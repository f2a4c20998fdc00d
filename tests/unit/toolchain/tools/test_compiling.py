"""Which builds compile at once, and in which order."""

from __future__ import annotations

import threading

import pytest

from tests.e2e.waiting import wait_until
from toolchain.tools import compiling
from toolchain.tools.compiling import Turns


@pytest.mark.parametrize("most", [1, 2])
def test_no_more_builds_than_allowed_have_a_turn(most: int) -> None:
    turns, over = Turns(most), threading.Event()
    holding: list[int] = []

    def build() -> None:
        with turns.taken(0):
            holding.append(1)
            over.wait()

    threads = [threading.Thread(target=build) for _ in range(4)]
    for each in threads:
        each.start()
    wait_until("the others wait", lambda: len(turns._waiting) == 4 - most)
    assert len(holding) == most
    over.set()
    for each in threads:
        each.join()
    assert len(holding) == 4


def test_the_lowest_rank_is_next_then_the_oldest() -> None:
    turns = Turns(1)
    order: list[str] = []
    threads = []
    with turns.taken(1):
        for number, name in enumerate(("pulumi", "kubernetes", "etcd")):

            def build(name: str = name) -> None:
                with turns.taken(compiling.rank(name)):
                    order.append(name)

            threads.append(threading.Thread(target=build))
            threads[-1].start()
            wait_until("it waits", lambda number=number: len(turns._waiting) == number + 1)  # type: ignore[misc]
    for each in threads:
        each.join()
    assert order == ["kubernetes", "pulumi", "etcd"]


def test_a_turn_is_given_back_by_a_build_that_fails() -> None:
    turns = Turns(1)
    with pytest.raises(RuntimeError), turns.taken(0):
        raise RuntimeError
    with turns.taken(0):
        pass


def test_two_builds_at_once_want_memory() -> None:
    assert [compiling.most(gib << 30) for gib in (4, 8, 24)] == [1, 2, 2]

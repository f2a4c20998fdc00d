"""`make board`: a real TensorBoard over the runs of all stacks, which ends when it is told to."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import processes
from tests.e2e.waiting import wait_until
from tests.monitoring.board import address, ask, end
from tests.monitoring.clone import Clone


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    return Clone(tmp_path_factory.mktemp("board") / "clone")


@pytest.fixture(scope="module")
def board(clone: Clone) -> Iterator[str]:
    """The address of a board on a free port."""
    log = clone.root / "board.log"
    making = clone.making("board", "PORT=0", log=log)
    try:
        yield address(making, log)
        end(making, log, clone.root)
    finally:
        processes.kill(making)


def test_the_board_shows_the_runs_of_all_stacks_and_each_that_comes(clone: Clone, board: str) -> None:
    assert ask(board, "data/runs") == []
    for stack, name, loss in (("dev", "mnist-1", 0.5), ("gpu", "mnist-2", 0.25)):
        clone.write_events(clone.run_of(stack, name), 3, loss)
    wait_until("both runs are there", lambda: len(ask(board, "data/runs")) == 2)
    assert sorted(ask(board, "data/runs")) == ["dev/runs/mnist-1", "gpu/runs/mnist-2"]
    query = "data/plugin/scalars/scalars?run=gpu/runs/mnist-2&tag=loss"
    ((_, step, loss),) = ask(board, query)
    assert (step, loss) == (3, 0.25)


def test_the_board_answers_this_machine_alone(board: str) -> None:
    port = int(board.rstrip("/").rpartition(":")[2])
    listening = [
        line.split()[1]
        for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
        for line in table.read_text().splitlines()[1:]
        if line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"
    ]
    assert listening == [f"{int.from_bytes(socket.inet_aton('127.0.0.1'), 'little'):08X}:{port:04X}"]

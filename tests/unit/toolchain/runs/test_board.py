"""`make board`: which ports it takes. That a real TensorBoard shows the runs is tested in tests/monitoring."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.unit.toolchain.runs.conftest import Models, epoch
from toolchain import __main__ as command
from toolchain.runs import listing
from toolchain.tools import venv

BAD = ["", " ", "http", "-1", "+80", "6006.0", "0x10", "65536", "9" * 30, "٦", "1 2", "²"]


class StartedError(Exception):
    """In place of TensorBoard."""


@pytest.fixture
def nothing_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def started(program: Path, arguments: list[str]) -> None:
        assert arguments[0] == str(program)
        raise StartedError(arguments[1:])

    monkeypatch.setattr(venv, "ensure_beside", lambda folder, lock: tmp_path)
    monkeypatch.setattr("os.execv", started)


@pytest.mark.parametrize("port", BAD)
def test_what_is_no_port_is_refused(
    nothing_starts: None, models: Models, port: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["board", "--port", port]) == 1
    said = capsys.readouterr().err
    assert f"PORT={port} is not a port" in said
    assert "fix: `make board PORT=0`" in said


def test_a_port_that_is_taken_is_refused(
    nothing_starts: None, models: Models, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server((listing.LOOPBACK, 0)) as taken:
        assert command.main(["board", "--port", str(taken.getsockname()[1])]) == 1
    said = capsys.readouterr().err
    assert "another program listens on port" in said
    assert "fix: `make board PORT=0`" in said


@pytest.mark.parametrize("trained", [True, False])
def test_a_board_without_events_says_so_and_starts(
    nothing_starts: None, models: Models, capsys: pytest.CaptureFixture[str], trained: bool
) -> None:
    if trained:
        (models.run("mnist-1", epoch(1, 0.9)) / "events.out.tfevents.1.host").touch()
    with pytest.raises(StartedError, match=str(models.folder)):
        listing.board("0")
    assert ("no run has written events yet" in capsys.readouterr().err) != trained

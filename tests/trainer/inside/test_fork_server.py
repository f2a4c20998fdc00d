"""The process that forks the ranks of the tests' jobs takes none of them for another."""

import io
import json
import os

import pytest

from tests.inside import fork_server

PID = 7


def test_a_process_with_the_id_of_one_that_has_ended_is_another(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The kernel gives each id again once its numbers have gone round."""
    requests = [{"start": {}}, {"poll": PID}, {"poll": PID}, {"start": {}}, {"poll": PID}]
    statuses = iter([(PID, 138 << 8), (0, 0)])
    monkeypatch.setattr(os, "fork", lambda: PID)
    monkeypatch.setattr(os, "waitpid", lambda process, options: next(statuses))
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{json.dumps(each)}\n" for each in requests)))
    fork_server.serve()
    assert list(map(json.loads, capsys.readouterr().out.splitlines())) == [PID, 138, 138, PID, None]

"""How rank 0's log is followed: progress bars, files that the kubelet rotates, connections that break."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from infra.objects.api import ApiAddress
from infra.run.job_api import JobApi, last_state
from infra.run.log_follower import LogFollower, LogLine, log_lines
from infra.run.waiting import NoProgressError, Waiting
from tests.unit.infra.objects.played_api import play
from tests.unit.infra.run.test_run import FakeApi, job

AT = "2026-01-01T00:00:{:02}.123456789Z"
BROKEN = ConnectionResetError("reset")
CHUNK = 16 * 1024
"""Bytes after which containerd writes a line that has not ended: max_container_log_line_size."""


def timed(second: int, text: str) -> bytes:
    return f"{AT.format(second)} {text}".encode()


def bar(first: int, last: int) -> str:
    """What tqdm writes from one step to another: the state stands after the carriage return."""
    return "".join(f"\r{done:3}%|bar" for done in range(first, last + 1))


def rank0(state: str = "running", restarts: int = 0) -> dict[str, Any]:
    container = {"name": "pytorch", "restartCount": restarts, "state": {state: {}}}
    return {
        "metadata": {"name": "j-master-0", "uid": "p"},
        "status": {"phase": "Running", "containerStatuses": [container]},
    }


class Logged(FakeApi):
    """A job whose container's log is served stream after stream, as the kubelet's sinceTime chooses of it."""

    def __init__(self, *streams: Sequence[bytes | Exception], looks: int = 0) -> None:
        super().__init__([job("Running")] * looks)
        self.streams, self.asked = iter(streams), list[str]()

    def log_stream(self, pod: str, container: str, since: str = "") -> Iterator[bytes]:
        self.asked.append(since)
        for each in next(self.streams, []):
            if isinstance(each, Exception):
                raise each
            yield each


def followed(api: Logged, *pods: dict[str, Any]) -> LogFollower:
    """The follower after it has seen the pod in each of these states, and has read all that was served meanwhile."""
    follower = LogFollower(api)
    follower.pod = "j-master-0"
    for pod in pods:
        follower.ensure_started([pod])
        assert follower.thread
        follower.thread.join()
    return follower


@pytest.mark.parametrize(
    ("line", "state"),
    [
        ("plain", "plain"),
        ("  indented", "  indented"),
        ("", ""),
        ("from Windows\r", "from Windows"),
        (bar(0, 100), "100%|bar"),
        (f"{bar(0, 100)}\r        \r", "100%|bar"),
        ("step 1\rstep 2\r", "step 2"),
    ],
)
def test_a_line_is_what_a_terminal_shows_of_it_last(line: str, state: str) -> None:
    assert last_state(line) == state


def test_the_last_lines_of_a_log_count_a_progress_bar_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, lambda _: f"start\n{bar(0, 100)}\n\nValueError: form\x0cfeed\n")
    api = JobApi(ApiAddress(None), "kubeflow", "j", "u", lambda _: None)
    expected = ["start", "100%|bar", "", "ValueError: form\x0cfeed"]
    assert api.last_lines("j-master-0", "pytorch") == expected


def test_a_progress_bar_is_shown_once_an_epoch() -> None:
    text = timed(1, f"{bar(0, 100)}\n") + timed(2, "accuracy=0.5\n") + timed(3, f"{bar(0, 100)}\n")
    for size in (1, 7, 100, CHUNK):
        api = Logged([text[begin : begin + size] for begin in range(0, len(text), size)])
        follower = followed(api, rank0())
        assert api.shown == ["j: 100%|bar", "j: accuracy=0.5", "j: 100%|bar"], size
        assert [*follower.latest] == ["100%|bar", "accuracy=0.5", "100%|bar"]


def test_an_unfinished_line_is_kept_as_its_last_state_alone() -> None:
    chunks = [timed(1, ""), *(bar(step, step + 9).encode() for step in range(0, 100, 10))]
    found = [*log_lines([*chunks, b"\n"])]
    assert found[-1] == LogLine(AT.format(1), " 99%|bar")
    assert [each.is_whole for each in found] == [*(False for _ in range(10)), True]
    assert {each.at for each in found} == {AT.format(1)}


def test_an_unfinished_line_is_shown_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10_000, 30))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    chunks = [bar(step, step + 9).encode() for step in range(0, 60, 10)]
    api = Logged([timed(1, ""), *chunks])
    followed(api, rank0())
    # The last is what the log ends with.
    assert api.shown == ["j:  28%|bar", "j:  48%|bar", "j:  59%|bar"]


@pytest.mark.parametrize("grows", [True, False])
def test_carriage_returns_alone_are_progress(monkeypatch: pytest.MonkeyPatch, grows: bool) -> None:
    """A job that prints nothing else trains for hours without a line that ends."""
    clock = iter(range(0, 10_000_000, 400))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))

    class Printing(Logged):
        """Each look finds a part of the log that was read to its end."""

        def observations(self) -> Iterator[dict[str, Any]]:
            for now in super().observations():
                yield now
                if wait.follower.thread:
                    wait.follower.thread.join()

    bars: list[bytes | Exception] = [timed(1, bar(0, 9)), BROKEN]
    api = Printing(*[bars] * (40 if grows else 1), looks=40)
    api._pods = [rank0()]
    wait = Waiting(api)
    error, said = (AssertionError, "do not end") if grows else (NoProgressError, "no progress for 30 minutes")
    with pytest.raises(error, match=said):
        wait.until_end()


def test_after_a_break_the_log_goes_on_after_the_last_line_seen() -> None:
    """The server takes whole seconds: lines of that second come again."""
    again = [timed(1, "one\n"), timed(2, "two\n"), timed(3, "three\n")]
    api = Logged([timed(1, "one\n"), timed(2, "two\n"), b"2026-01-01T00:0", BROKEN], again)
    follower = followed(api, rank0(), rank0())
    assert api.asked == ["", AT.format(2)]
    assert api.shown == ["j: one", "j: two", "j: three"]
    assert follower.seen == 3


@pytest.mark.parametrize("broken", [[], [BROKEN]], ids=["the log ends", "the connection breaks"])
def test_a_rotated_log_is_followed_into_its_next_file(broken: list[Exception]) -> None:
    """It begins with new lines, fewer than were seen before."""
    earlier = [timed(second, f"line {second}\n") for second in range(30)]
    api = Logged([*earlier, *broken], [timed(31, "of the next file\n")])
    follower = followed(api, rank0(), rank0())
    assert api.shown[-1] == "j: of the next file"
    assert (len(api.shown), follower.seen) == (31, 31)


@pytest.mark.parametrize("state", ["terminated", "waiting"])
def test_a_log_that_ends_with_its_container_is_read_once(state: str) -> None:
    api = Logged([timed(1, "one\n")])
    followed(api, rank0(), rank0(state))
    assert api.asked == [""]


def test_the_next_start_of_a_container_is_read_from_its_beginning() -> None:
    api = Logged([timed(5, "five\n")], [timed(1, "the clock was set back\n")])
    followed(api, rank0(), rank0(restarts=1))
    assert api.asked == ["", ""]
    assert api.shown == ["j: five", "j: the clock was set back"]


def test_what_the_kubelet_says_itself_has_no_time_and_is_shown() -> None:
    words = b'failed to watch file "/var/log/pods/0.log": too many open files\n'
    api = Logged([timed(1, "one\n"), BROKEN], [timed(1, "one\n"), words, b"2026-01-01 is no time\n"])
    followed(api, rank0(), rank0())
    assert api.shown == ["j: one", f"j: {words.decode().strip()}", "j: 2026-01-01 is no time"]

"""`make rerun` changes the stack file and its renderings, or nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolchain import __main__, stack_files
from toolchain.checks import review, stack_changes
from toolchain.steps import SetupError
from toolchain.tools import venv

BEFORE = b"before\r\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stack file; what counts up in it is played."""
    made = tmp_path / "Pulumi.dev.yaml"
    made.write_bytes(BEFORE)

    def count_up(file: Path, job: str) -> None:
        assert (file, job) == (made, "small")
        made.write_text("after")

    monkeypatch.setattr(stack_files, "STACKS", tmp_path)
    monkeypatch.setattr(venv, "ensure", lambda: None)
    monkeypatch.setattr(review, "render", lambda stack: 0)
    monkeypatch.setattr(stack_changes, "_count_up", count_up)
    return made


def test_it_says_what_comes_next(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = __main__.parser().parse_args(["rerun", "--stack", "dev", "--job", "small"])
    assert __main__.dispatch(asked) == 0
    assert file.read_text() == "after"
    assert "make up STACK=dev" in capsys.readouterr().out


def test_what_cannot_be_rendered_is_taken_back(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review, "render", lambda stack: 1)
    assert stack_changes.rerun("dev", "small") == 1
    assert file.read_bytes() == BEFORE


@pytest.mark.parametrize("error", [SetupError("no Go"), OSError("no room"), KeyboardInterrupt()], ids=repr)
def test_what_an_error_or_an_interrupt_ends_is_taken_back(
    file: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def render(stack: str) -> int:
        raise error

    monkeypatch.setattr(review, "render", render)
    with pytest.raises(type(error)):
        stack_changes.rerun("dev", "small")
    assert file.read_bytes() == BEFORE


def test_a_stack_that_there_is_not_is_refused(file: Path) -> None:
    with pytest.raises(SetupError, match="there is no stack 'none'"):
        stack_changes.rerun("none", "")

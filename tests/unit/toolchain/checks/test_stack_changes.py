"""`make rerun` and `make use` change the stack file, or nothing; what they refuse before it is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra import stack_edits
from tests.unit.toolchain.runs.conftest import Models, epoch
from toolchain import __main__, stack_files
from toolchain import __main__ as command
from toolchain.checks import review, stack_changes
from toolchain.runs import records
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


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What the program is asked for; it answers that job mnist has changed."""
    models = Models(tmp_path / "models")
    calls: list[tuple[str, str]] = []
    models.run("mnist-01234567", epoch(2, 0.97), weights="first")
    models.run("mnist-89abcdef", epoch(1, 0.5))
    models.run("mnist-01230000", epoch(2, 0.5), stack="gpu", weights="other")
    (tmp_path / "stacks").mkdir()
    for stack in ("dev", "gpu", "away"):
        (tmp_path / "stacks" / f"Pulumi.{stack}.yaml").touch()

    def choose(file: Path, run: str) -> list[str]:
        calls.append((file.name, run))
        return ["mnist"]

    monkeypatch.setattr(records, "MODELS", models.folder)
    monkeypatch.setattr(stack_files, "STACKS", tmp_path / "stacks")
    monkeypatch.setattr(venv, "ensure", lambda: None)
    monkeypatch.setattr(stack_edits, "choose_run", choose)
    return calls


@pytest.mark.parametrize("name", ["mnist-01234567", "mnist-0", "dev/mnist-0"])
def test_the_beginning_of_a_name_will_do(
    asked: list[tuple[str, str]], capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert command.main(["use", "--", name]) == 0
    assert asked == [("Pulumi.dev.yaml", "mnist-01234567")]
    assert "`make up STACK=dev` applies this" in capsys.readouterr().out


@pytest.mark.parametrize("stack", ["away", "gpu"])
def test_a_run_on_a_volume_that_is_elsewhere_goes_by_its_whole_name(
    asked: list[tuple[str, str]], stack: str
) -> None:
    """Whether other runs of the stack have been copied here, or none."""
    stack_changes.use(stack, f"{stack}/mnist-01234567")
    stack_changes.use(stack, "mnist-01234567")
    assert asked == [(f"Pulumi.{stack}.yaml", "mnist-01234567")] * 2


def test_none_trains_again(asked: list[tuple[str, str]], capsys: pytest.CaptureFixture[str]) -> None:
    stack_changes.use("dev", "none")
    assert asked == [("Pulumi.dev.yaml", "none")]
    assert "trains again as the file says" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("stack", "name", "said"),
    [
        ("dev", "", "RUN is missing"),
        ("dev", "mnist-8", "is not finished"),
        ("dev", "other", "no run is called dev/other"),
        ("dev", "gpu/mnist-01230000", "no run is called"),
        ("dev", "mnist", "several runs"),
        ("gpu", "mnist-9", "no run is called"),
    ],
)
def test_it_is_refused(asked: list[tuple[str, str]], stack: str, name: str, said: str) -> None:
    with pytest.raises(SetupError, match=said):
        stack_changes.use(stack, name)
    assert asked == []

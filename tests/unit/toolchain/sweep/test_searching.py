"""`make sweep` around its rounds: what it refuses, what it makes, what it prints."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from toolchain import stack_files
from toolchain.operating import environment
from toolchain.paths import STACKS
from toolchain.steps import SetupError
from toolchain.sweep import rounds, searching
from toolchain.sweep.trials import Answer, Search, Trial
from toolchain.tools import venv

TOLD: dict[str, Any] = {
    "name": "sweep",
    "job": "mnist-sweep-",
    "namespace": "kubeflow",
    "resource": "pytorchjobs.v1.kubeflow.org",
    "metric": "accuracy",
    "objective": "accuracy",
    "study": {"trials": 3},
}
BEST = Trial(0, "complete", {"training.lr": 0.1}, 0.9, 1, "mnist-sweep-0-0a1b2c3d")
ANSWER = Answer((BEST, Trial(1, "running", {"training.lr": 0.2})), 0)


class _Study:
    def __init__(self, *_: Any) -> None:
        """Nothing."""

    def exchange(self, observed: object, *, proposes: bool) -> Answer:
        return ANSWER


@pytest.fixture
def clone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Folders of its own, with everything that takes time left out."""
    monkeypatch.setattr(searching, "FILES", tmp_path / "sweep")
    monkeypatch.setattr(searching, "MODELS", tmp_path / "models")
    monkeypatch.setattr(venv, "ensure", lambda: tmp_path)
    monkeypatch.setattr(stack_files, "names", lambda: ["dev"])
    monkeypatch.setattr(environment, "is_protected", lambda stack: False)
    folder = tmp_path / "models" / "dev" / "sweep"
    monkeypatch.setattr(searching, "search", lambda stack: Search(folder=folder, **TOLD))
    monkeypatch.setattr(searching, "python_with_optuna", lambda: tmp_path / "python")
    monkeypatch.setattr(searching, "KeptStudy", _Study)
    monkeypatch.setattr(rounds, "search", lambda *_: Answer((BEST,), 0))
    return tmp_path


def test_it_says_where_it_stands_and_ends_with_the_best(
    clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    searching.sweep("dev")
    said = capsys.readouterr()
    assert "1 of 3 trials are done, 1 under way" in said.err
    assert said.out.endswith("      lr: 0.1\n")
    assert f"{STACKS.name}/Pulumi.dev.yaml" in said.out
    assert (clone / "models" / "dev" / "sweep").is_dir()


def test_a_stack_that_there_is_not_is_refused(clone: Path) -> None:
    with pytest.raises(SetupError, match="there is no stack"):
        searching.sweep("prod")


def test_a_protected_stack_is_refused(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "is_protected", lambda stack: True)
    with pytest.raises(SetupError, match="dev is protected") as refused:
        searching.sweep("dev")
    assert "make promote" in refused.value.fix


def test_two_searches_of_one_stack_are_refused(clone: Path) -> None:
    with (
        searching.held("dev"),
        searching.held("gpu"),
        pytest.raises(SetupError, match="another `make sweep` works on stack dev"),
    ):
        searching.sweep("dev")
    searching.sweep("dev")


@pytest.mark.parametrize(("user", "mode"), [(0, 0o2775), (1000, 0o1777)])
def test_pods_may_write_into_the_folder(
    clone: Path, monkeypatch: pytest.MonkeyPatch, user: int, mode: int
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    folder = clone / "models" / "dev" / "sweep"
    searching.make_folder(folder)
    assert folder.stat().st_mode & 0o7777 == mode
    folder.chmod(0o755)
    searching.make_folder(folder)
    assert folder.stat().st_mode & 0o7777 == 0o755, "what is there is the user's"


def test_a_folder_that_cannot_be_written_is_named(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(SetupError, match="cannot be written") as refused:
        searching.make_folder(clone / "models" / "dev" / "sweep")
    assert "sudo chmod o+w" in refused.value.fix
    (clone / "models" / "gpu").write_text("a file")
    with pytest.raises(SetupError, match="cannot be made"):
        searching.make_folder(clone / "models" / "gpu" / "sweep")


def test_what_the_stack_file_asks_for_is_read_and_what_is_wrong_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(stack_files, "STACKS", tmp_path)
    monkeypatch.setattr(venv, "ensure", lambda: tmp_path)
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text(
        "config:\n  trainstack:job: {name: mnist}\n  trainstack:sweep: {options: {training.lr: [0.1, 0.2]}}\n"
    )
    found = searching.search("dev")
    assert (found.job, found.folder.parts[-2]) == ("mnist-sweep-", "dev")
    file.write_text("config:\n  trainstack:job: {name: mnist}\n")
    with pytest.raises(SetupError, match=r"trainstack:sweep = \(absent\)"):
        searching.search("dev")

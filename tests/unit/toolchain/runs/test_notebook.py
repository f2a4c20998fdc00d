"""`make notebook`: which run and which data it takes. That the notebook runs is tested in tests/monitoring."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.toolchain.runs.conftest import Models, epoch
from toolchain.machine import engine
from toolchain.machine.engine import Engine
from toolchain.paths import ROOT
from toolchain.runs import notebook
from toolchain.steps import SetupError
from toolchain.tools import venv

Run = list[tuple[list[str], dict[str, str]]]


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """What is run in place of Jupyter: commands with their variables."""
    found: Run = []
    monkeypatch.setattr(venv, "ensure_beside", lambda folder, lock: tmp_path)
    monkeypatch.setattr(notebook, "DATA", tmp_path / "data")
    monkeypatch.setattr(notebook, "RESULTS", tmp_path / "results")

    def run(command: list[Any], *, env: dict[str, str], **_: Any) -> None:
        found.append(([str(word) for word in command], env))

    monkeypatch.setattr(notebook, "run", run)
    return found


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / f"{notebook.IMAGES}.gz").touch()
    return folder


def test_the_latest_finished_run_of_the_stack_is_taken(
    executed: Run, models: Models, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models.run("mnist-1", epoch(1, 0.9), weights="first")
    models.run("mnist-2", epoch(1, 0.9), weights="second")
    models.run("mnist-3", epoch(1, 0.9))
    models.run("mnist-sweep-0-1", epoch(1, 0.9), weights="a trial", stack="dev/sweep")
    models.run("mnist-4", epoch(1, 0.9), weights="fourth", stack="gpu")
    notebook.notebook("dev", "")
    notebook.notebook("dev", "gpu/mnist-4")
    ((command, env), (_, other)) = executed
    result = tmp_path / "results" / "mnist-2.ipynb"
    assert command == [str(tmp_path / "jupyter-execute"), str(notebook.NOTEBOOK), f"--output={result}"]
    assert env == {"STACK": "dev", "RUN": "mnist-2", "DATA": str(data)}
    assert (other["STACK"], other["RUN"]) == ("gpu", "mnist-4")
    assert f"notebook: {result}\n" in capsys.readouterr().out


def test_a_set_in_a_folder_of_its_name_comes_first(executed: Run, models: Models, data: Path) -> None:
    models.run("mnist-1", epoch(1, 0.9), weights="first")
    (data / "mnist").mkdir()
    (data / "mnist" / notebook.IMAGES).touch()
    notebook.notebook("dev", "")
    assert executed[0][1]["DATA"] == str(data / "mnist")


def test_the_digits_come_out_of_an_image_once(
    executed: Run, models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def output(self: Engine, *words: str) -> str:
        asked.append(words[0])
        if words[0] == "cp":
            (Path(words[2]) / notebook.IMAGES).touch()
        return {"images": "one\ntwo", "create": "container"}.get(words[0], "")

    monkeypatch.setattr(Engine, "output", output)
    monkeypatch.setattr(engine, "find", lambda: Engine("docker", ours=True))
    models.run("mnist-1", epoch(1, 0.9), weights="first", dataset="digits")
    notebook.notebook("dev", "")
    notebook.notebook("dev", "")
    assert {env["DATA"] for _, env in executed} == {str(tmp_path / "results" / "digits")}
    assert asked == ["images", "create", "cp", "rm"]


@pytest.mark.parametrize(
    ("run", "name", "said", "fix"),
    [
        ({}, "", "no run of stack dev is finished here", "make up STACK=dev"),
        ({}, "mnist-1", "mnist-1", ""),
        ({"weights": ""}, "mnist-1", "is not finished", "make runs"),
        ({"weights": "x", "network": "convnet"}, "", "has trained convnet", "make notebook RUN="),
        ({"weights": "x", "dataset": "fashion-mnist"}, "", "was trained on fashion-mnist", "DATA_DIR="),
        ({"weights": "x", "dataset": "digits"}, "", "none on this machine", "make up"),
    ],
)
def test_what_cannot_be_looked_at_is_refused(
    executed: Run,
    models: Models,
    monkeypatch: pytest.MonkeyPatch,
    run: dict[str, Any],
    name: str,
    said: str,
    fix: str,
) -> None:
    monkeypatch.setattr(engine, "find", lambda: None)
    if run:
        models.run("mnist-1", epoch(1, 0.9), **run)
    with pytest.raises(SetupError, match=said) as refused:
        notebook.notebook("dev", name)
    assert fix in str(refused.value)
    assert executed == []


def test_the_notebook_is_committed_without_results() -> None:
    text = (ROOT / "docs" / "notebook.ipynb").read_text()
    assert '"outputs": []' in text
    assert '"execution_count": null' in text
    assert "image/png" not in text, "what it shows depends on the run"

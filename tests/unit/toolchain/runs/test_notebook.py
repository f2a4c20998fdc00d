"""`make notebook`: which run and which data it takes. That the notebook runs is tested in tests/monitoring."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.unit.toolchain.runs.conftest import Models, epoch
from toolchain.images import on_debian
from toolchain.machine import engine
from toolchain.machine.engine import Engine
from toolchain.paths import ROOT
from toolchain.runs import notebook
from toolchain.steps import SetupError


@dataclass
class Executed:
    """The containers that were run in place of Jupyter's; `fails` where the next one is to."""

    commands: list[list[str]] = field(default_factory=list)
    stopped: int = 0
    fails: bool = False

    def run(self, command: list[Any], *, stdout: Path, **_: Any) -> None:
        self.commands.append([str(word) for word in command])
        stdout.write_text("half")
        if self.fails:
            raise SetupError("a cell fails")

    def stop(self) -> None:
        self.stopped += 1

    def values(self, option: str) -> list[list[str]]:
        """What each container was given by the option of this name."""
        start = f"--{option}="
        return [
            [word.removeprefix(start) for word in each if word.startswith(start)] for each in self.commands
        ]

    def data(self) -> list[str]:
        """The folder that each container has as its data."""
        return [
            word.partition(":")[0]
            for each in self.values("volume")
            for word in each
            if f":{notebook.CLONE}/data:" in word
        ]


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Executed:
    found = Executed()
    monkeypatch.setattr(engine, "ensure", lambda: Engine("docker", ours=True))
    monkeypatch.setattr(engine, "stop", found.stop)
    monkeypatch.setattr(on_debian, "ensure", lambda *_: "trainstack/notebook:1")
    monkeypatch.setattr(notebook, "DATA", tmp_path / "data")
    monkeypatch.setattr(notebook, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(notebook, "run", found.run)
    return found


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / f"{notebook.IMAGES}.gz").touch()
    return folder


def test_the_latest_finished_run_of_the_stack_is_taken(
    executed: Executed, models: Models, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models.run("mnist-1", epoch(1, 0.9), weights="first")
    models.run("mnist-2", epoch(1, 0.9), weights="second")
    models.run("mnist-3", epoch(1, 0.9))
    models.run("mnist-sweep-0-1", epoch(1, 0.9), weights="a trial", stack="dev/sweep")
    models.run("mnist-4", epoch(1, 0.9), weights="fourth", stack="gpu")
    notebook.notebook("dev", "")
    notebook.notebook("dev", "gpu/mnist-4")
    assert executed.values("env") == [["STACK=dev", "RUN=mnist-2"], ["STACK=gpu", "RUN=mnist-4"]]
    assert executed.data() == [str(data), str(data)]
    result = tmp_path / "results" / "mnist-2.ipynb"
    assert result.read_text() == "half"
    assert f"notebook: {result}\n" in capsys.readouterr().out
    assert executed.stopped == 2


def test_the_container_reads_and_does_nothing_else(executed: Executed, models: Models, data: Path) -> None:
    models.run("mnist-1", epoch(1, 0.9), weights="first")
    notebook.notebook("dev", "")
    ((command,), (mounts,)) = executed.commands, executed.values("volume")
    assert executed.values("network") == [["none"]]
    assert "--read-only" in command
    assert all(mount.endswith(":ro") for mount in mounts)
    inside = {mount.split(":")[1] for mount in mounts}
    assert inside == {
        f"{notebook.CLONE}/{name}" for name in ("Pulumi.yaml", "notebook.ipynb", "models", "data")
    }


def test_a_notebook_that_fails_leaves_the_last_result(
    executed: Executed, models: Models, data: Path, tmp_path: Path
) -> None:
    models.run("mnist-1", epoch(1, 0.9), weights="first")
    notebook.notebook("dev", "")
    (tmp_path / "results" / "mnist-1.ipynb").write_text("whole")
    executed.fails = True
    with pytest.raises(SetupError, match="a cell fails"):
        notebook.notebook("dev", "")
    assert {each.name: each.read_text() for each in (tmp_path / "results").iterdir()} == {
        "mnist-1.ipynb": "whole"
    }
    assert executed.stopped == 2


def test_a_set_in_a_folder_of_its_name_comes_first(executed: Executed, models: Models, data: Path) -> None:
    models.run("mnist-1", epoch(1, 0.9), weights="first")
    (data / "mnist").mkdir()
    (data / "mnist" / notebook.IMAGES).touch()
    notebook.notebook("dev", "")
    assert executed.data() == [str(data / "mnist")]


def test_the_digits_come_out_of_an_image_once(
    executed: Executed, models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def output(self: Engine, *words: str) -> str:
        asked.append(words[0])
        if words[0] == "cp":
            (Path(words[2]) / notebook.IMAGES).touch()
        return {"images": "one\ntwo", "create": "container"}.get(words[0], "")

    monkeypatch.setattr(Engine, "output", output)
    models.run("mnist-1", epoch(1, 0.9), weights="first", dataset="digits")
    notebook.notebook("dev", "")
    notebook.notebook("dev", "")
    assert set(executed.data()) == {str(tmp_path / "results" / "digits")}
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
    executed: Executed,
    models: Models,
    monkeypatch: pytest.MonkeyPatch,
    run: dict[str, Any],
    name: str,
    said: str,
    fix: str,
) -> None:
    monkeypatch.setattr(Engine, "output", lambda self, *words: "")
    if run:
        models.run("mnist-1", epoch(1, 0.9), **run)
    with pytest.raises(SetupError, match=said) as refused:
        notebook.notebook("dev", name)
    assert fix in str(refused.value)
    assert executed.commands == []


def test_the_notebook_is_committed_without_results() -> None:
    text = (ROOT / "docs" / "notebook.ipynb").read_text()
    assert '"outputs": []' in text
    assert '"execution_count": null' in text
    assert "image/png" not in text, "what it shows depends on the run"

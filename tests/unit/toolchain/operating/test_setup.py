"""Set-up: `make fetch`, the trainer image that is built beside the tools, and DATA_DIR, verified and copied whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from infra import agreed
from infra.cluster_kinds import ClusterKind
from infra.clusters.kind.component import REGISTRY_IMAGE
from toolchain.images import cluster_images
from toolchain.machine import engine
from toolchain.machine.engine import Engine
from toolchain.operating import environment, program_calls, setup
from toolchain.steps import SetupError, StoppedError
from toolchain.tools import venv
from trainer import data, idx

NODE = "TRAINSTACK_NODE_IMAGE"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done, in order; set-up finds kind's published node image, which the engine lacks."""
    done: list[str] = []

    def noting(name: str, answer: Any = None) -> Callable[..., Any]:
        def note(*arguments: str, **_: object) -> Any:
            done.append(" ".join([name, *arguments]))
            return answer

        return note

    monkeypatch.setattr(setup, "prepare", noting("tools", {NODE: cluster_images.PUBLISHED_NODE}))
    monkeypatch.setattr(setup, "prepare_operators", noting("operators", {}))
    monkeypatch.setattr(environment, "for_stack", lambda found, _: found)
    kinds = {"dev": ClusterKind.KIND, "existing": ClusterKind.EXISTING}
    monkeypatch.setattr(environment, "cluster_kind", kinds.__getitem__)
    monkeypatch.setattr(engine, "ensure", lambda: Engine("docker", ours=True))
    monkeypatch.setattr(engine, "stop", noting("stop"))
    monkeypatch.setattr(Engine, "succeeds", lambda *_: False)
    monkeypatch.setattr(setup, "run", lambda command, **_: done.append(" ".join(command[1:])))
    monkeypatch.setattr(venv, "ensure", lambda: None)
    monkeypatch.setattr(program_calls, "build_image", lambda _, stack: done.append(f"image {stack}"))
    return done


def test_everything_of_the_stack_is_prepared(calls: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    setup.fetch("dev")
    pulled = [f"pull --quiet {each}" for each in (cluster_images.PUBLISHED_NODE, REGISTRY_IMAGE)]
    assert calls == ["tools dev", "operators dev", *pulled, "image dev", "stop"]
    assert "make up STACK=dev" in capsys.readouterr().out


def test_a_cluster_that_is_there_needs_no_image_of_ours(calls: list[str]) -> None:
    setup.fetch("existing")
    assert calls == ["tools existing", "operators existing", "image existing", "stop"]


def test_images_that_are_there_are_not_pulled(calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that set-up has built are there, and named by it."""
    made = {NODE: "trainstack/node:1", "TRAINSTACK_REGISTRY_IMAGE": "trainstack/registry:1"}
    monkeypatch.setattr(setup, "prepare", lambda *_, **__: made)
    monkeypatch.setattr(Engine, "succeeds", lambda *words: words[-1] in made.values())
    setup.fetch("dev")
    assert not [call for call in calls if call.startswith("pull")]


@pytest.mark.parametrize(("module", "name"), [(program_calls, "build_image"), (setup, "run")])
def test_our_engine_stops_after_a_failure_too(
    calls: list[str], monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise SetupError("no such folder")

    monkeypatch.setattr(module, name, refuse)
    with pytest.raises(SetupError, match="no such folder"):
        setup.fetch("dev")
    assert calls[-1] == "stop"


ENGINE = Engine("docker", ours=True, env={"DOCKER_HOST": "unix:///of-ours"})
BASE = {agreed.CPU_BASE: "trainstack/base:1"}


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, Any]]:
    """The commands that build an image, with their options."""
    found: list[dict[str, Any]] = []
    monkeypatch.setattr(environment, "uses_gpu_base", lambda stack: stack == "gpu")
    monkeypatch.setattr(environment, "for_stack", lambda found, stack: {"PATH": "/usr/bin", **found})
    monkeypatch.setattr(venv, "find_uv", lambda: tmp_path / "tools" / "uv")
    monkeypatch.setattr(
        setup, "run", lambda command, **options: found.append({"command": command, **options})
    )
    return found


def test_it_is_built_on_the_base_that_has_just_been_made(
    builds: list[dict[str, Any]], tmp_path: Path
) -> None:
    setup._trainer_image("dev", ENGINE, BASE)
    [build] = builds
    assert build["command"] == venv.command("infra.image.engine_image", "dev")
    assert build["env"].items() >= {**ENGINE.env, **BASE}.items()
    assert str(tmp_path / "tools") in build["env"]["PATH"].split(":"), "for the packages of a user's project"


@pytest.mark.parametrize("stack", ["", "gpu"])
def test_no_image_is_built_that_is_not_wanted_or_has_another_base(
    builds: list[dict[str, Any]], stack: str
) -> None:
    setup._trainer_image(stack, ENGINE, BASE)
    assert builds == []


def test_a_failure_is_left_to_pulumi(
    builds: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(setup, "run", raising(SetupError("no such package")))
    setup._trainer_image("dev", ENGINE, BASE)
    assert "not built; `pulumi up` tries again, and shows the error" in capsys.readouterr().err


def test_an_interrupt_is_none(builds: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "run", raising(StoppedError("stopped")))
    with pytest.raises(StoppedError):
        setup._trainer_image("dev", ENGINE, BASE)


def raising(error: Exception) -> Any:
    def run(command: list[str], **options: Any) -> None:
        raise error

    return run


FILES = {f"{name}.gz" for name in idx.FILES}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder with four packed files, and one that is none of them."""
    folder = tmp_path / "source"
    folder.mkdir()
    for name in FILES:
        (folder / name).write_text(f"new {name}")
    (folder / "notes.txt").write_text("not a data file")
    return folder


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the files count as MNIST: the real ones are not in this repository."""
    monkeypatch.setattr(idx, "identify", lambda folder: "mnist")


@pytest.mark.usefixtures("published")
def test_only_the_four_files_are_copied(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert data.main(["copy", str(source), str(tmp_path / "data")]) == 0
    assert {path.name for path in (tmp_path / "data").iterdir()} == FILES
    assert json.loads(capsys.readouterr().out) == {"dataset": "mnist"}


@pytest.mark.usefixtures("published")
def test_files_of_another_data_set_do_not_stay_beside_the_new(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "data"
    target.mkdir()
    (target / idx.FILES[0]).write_text("of another data set, unpacked")
    (target / f"{idx.FILES[1]}.gz").write_text("of another data set, packed")
    data.take(source, target)
    assert {path.name for path in target.iterdir()} == FILES
    assert all(path.read_text().startswith("new ") for path in target.iterdir())


@pytest.mark.usefixtures("published")
def test_the_data_folder_itself_may_be_named(source: Path) -> None:
    (source / idx.FILES[0]).write_text("the same, unpacked")
    data.take(source, source)
    assert {path.name for path in source.iterdir()} == {*FILES, idx.FILES[0], "notes.txt"}


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(setup, "DATA", tmp_path / "data")
    return tmp_path / "data"


def test_nothing_is_copied_when_a_file_is_missing(source: Path, target: Path) -> None:
    (source / f"{idx.FILES[2]}.gz").unlink()
    with pytest.raises(SetupError, match=idx.FILES[2]):
        setup.copy_verified(source)
    assert not target.exists()


def test_a_relative_folder_is_the_callers(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(source.parent)
    with pytest.raises(SetupError, match=str(source)):
        setup.copy_verified(Path("source"))

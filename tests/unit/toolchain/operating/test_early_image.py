"""The trainer image is built beside the tools of a first start, and whatever is wrong with it is left to Pulumi."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra import agreed
from toolchain.machine.engine import Engine
from toolchain.operating import environment, setup
from toolchain.steps import SetupError, StoppedError
from toolchain.tools import venv

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
    assert "not built yet; `pulumi up` tries again and says why" in capsys.readouterr().err


def test_an_interrupt_is_none(builds: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "run", raising(StoppedError("stopped")))
    with pytest.raises(StoppedError):
        setup._trainer_image("dev", ENGINE, BASE)


def raising(error: Exception) -> Any:
    def run(command: list[str], **options: Any) -> None:
        raise error

    return run

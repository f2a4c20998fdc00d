"""`make fetch`: everything of a stack is prepared and nothing is left running."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from infra.clusters.kind.component import REGISTRY_IMAGE
from toolchain.images import cluster_images
from toolchain.machine import engine
from toolchain.machine.engine import Engine
from toolchain.operating import environment, program_calls, setup
from toolchain.steps import SetupError
from toolchain.tools import venv

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
    monkeypatch.setattr(environment, "cluster_kind", lambda stack: "kind" if stack == "dev" else "existing")
    monkeypatch.setattr(engine, "ensure", lambda: Engine("docker", ours=True))
    monkeypatch.setattr(engine, "stop", noting("stop"))
    monkeypatch.setattr(cluster_images, "succeeds", lambda *_: False)
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
    monkeypatch.setattr(cluster_images, "succeeds", lambda *words: words[-1] in made.values())
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

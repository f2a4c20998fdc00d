"""`make fetch`: everything of a stack is prepared and nothing is left running."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from toolchain.images import cluster_images
from toolchain.machine import engine
from toolchain.machine.engine import Engine
from toolchain.operating import environment, program_calls, setup
from toolchain.steps import SetupError

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
    monkeypatch.setattr(program_calls, "fetch", lambda _, stack: done.append(f"manifests {stack}"))
    monkeypatch.setattr(program_calls, "build_image", lambda _, stack: done.append(f"image {stack}"))
    return done


def test_everything_of_the_stack_is_prepared(calls: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    setup.fetch("dev")
    pulled = f"pull --quiet {cluster_images.PUBLISHED_NODE}"
    assert calls == ["tools dev", "operators dev", pulled, "manifests dev", "image dev", "stop"]
    assert "make up STACK=dev" in capsys.readouterr().out


def test_a_cluster_that_is_there_needs_no_node_image(calls: list[str]) -> None:
    setup.fetch("existing")
    assert calls == ["tools existing", "operators existing", "manifests existing", "image existing", "stop"]


def test_a_node_image_that_is_there_is_not_pulled(calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_images, "succeeds", lambda *_: True)
    setup.fetch("dev")
    assert not [call for call in calls if call.startswith("pull")]


def test_our_engine_stops_after_a_failure_too(calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise SetupError("no such folder")

    monkeypatch.setattr(program_calls, "build_image", refuse)
    with pytest.raises(SetupError, match="no such folder"):
        setup.fetch("dev")
    assert calls[-1] == "stop"

"""Which images are made for the cluster of a stack, by who makes its nodes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra import agreed
from toolchain.images import base, cluster_images, control_plane, node, scratch
from toolchain.machine.engine import Engine
from toolchain.parallel import Jobs
from toolchain.tools import build

ENGINE = Engine("docker", ours=False, env={})
NODES = {"TRAINSTACK_NODE_IMAGE", "TRAINSTACK_REGISTRY_IMAGE"}
COMMON = {"TRAINSTACK_CPU_BASE", "TRAINSTACK_INIT_IMAGE", "TRAINSTACK_OPERATOR_IMAGE"}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What is built on a machine that reaches no registry and has nothing yet."""
    found: list[str] = []

    def note(name: str, answer: Any) -> Any:
        found.append(name)
        return answer

    monkeypatch.setattr(cluster_images, "published", lambda engine, nodes: False)
    monkeypatch.setattr(build, "build", lambda name: note(name, tmp_path))
    monkeypatch.setattr(cluster_images, "_base", lambda engine, system: note(system.name, "base"))
    monkeypatch.setattr(cluster_images, "_node", lambda engine, programs: note("node image", "node"))
    for image in ("init", "registry", "operator"):
        monkeypatch.setattr(scratch, image, lambda *_, image=image: f"{image}:1")
    return found


def ensure(nodes: bool, with_base: Callable[[dict[str, str]], None] = lambda base: None) -> set[str]:
    with Jobs() as jobs:
        return set(jobs.start(lambda: cluster_images.ensure(jobs, ENGINE, nodes, with_base)).result())


def test_nodes_of_our_own_take_all(made: list[str]) -> None:
    assert ensure(nodes=True) == COMMON | NODES
    bases = [each.name for each in (base.TRAINER_CPU, node.DEBIAN, control_plane.PROXY)]
    assert sorted(made) == sorted([*cluster_images.BUILT, *bases, "node image"])


def test_nodes_of_others_take_what_their_pods_run(made: list[str]) -> None:
    assert ensure(nodes=False) == COMMON
    assert sorted(made) == sorted([*cluster_images.OPERATOR, base.TRAINER_CPU.name])


@pytest.mark.parametrize(
    ("named", "used"), [("registry.example/debian:13", ""), ("trainstack/base:before", "base")]
)
def test_a_base_of_the_users_stays_and_one_of_ours_is_no_choice(
    made: list[str], monkeypatch: pytest.MonkeyPatch, named: str, used: str
) -> None:
    monkeypatch.setenv(agreed.CPU_BASE, named)
    told: list[dict[str, str]] = []
    found = ensure(nodes=False, with_base=told.append)
    assert (agreed.CPU_BASE in found) is bool(used), "set-up records what it has set, and nothing else"
    assert told == [{agreed.CPU_BASE: used or named}]
    assert (base.TRAINER_CPU.name in made) is bool(used)


@pytest.mark.parametrize("nodes", [True, False])
def test_the_trainer_images_base_is_told_while_tools_are_still_built(
    made: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, nodes: bool
) -> None:
    was_told = threading.Event()

    def build_last(name: str) -> Path:
        assert was_told.wait(timeout=600), "it waits for the tools"
        return tmp_path

    def note(base: dict[str, str]) -> None:
        assert base == {agreed.CPU_BASE: "base"}
        was_told.set()

    monkeypatch.setattr(build, "build", build_last)
    ensure(nodes, note)
    assert was_told.is_set()


@pytest.mark.parametrize("built", [set[str](), set(cluster_images.OPERATOR), set(cluster_images.BUILT)])
def test_what_is_built_counts_for_those_who_need_it(built: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "built", lambda name: name in built or None)
    assert cluster_images.all_built(nodes=True) is (built == set(cluster_images.BUILT))
    assert cluster_images.all_built(nodes=False) is bool(built)

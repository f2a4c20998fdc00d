"""Images of Debian's packages: which base they get, and when they are made again."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from toolchain.images import base, cluster_images, on_debian
from toolchain.machine.engine import Engine

ENGINE = Engine("docker", ours=False)
OURS = base.TRAINER_CPU.image


@pytest.mark.parametrize("own", ["", "mine/debian:1", OURS])
@pytest.mark.parametrize(("made", "pulled", "reached"), list(itertools.product((True, False), repeat=3)))
def test_the_base_is_the_trainer_images(
    monkeypatch: pytest.MonkeyPatch, own: str, made: bool, pulled: bool, reached: bool
) -> None:
    """What is there is used without asking a registry, and one of ours that only a variable names is not there."""
    published = base.published("CPU_BASE")
    asked: list[str] = []
    built: list[str] = []

    def succeeds(_engine: Engine, kind: str, _verb: str, name: str) -> bool:
        assert name == published
        asked.append(kind)
        return pulled if kind == "image" else reached

    def ensure(_engine: Engine, system: base.RootFileSystem, _log: Path) -> str:
        built.append(system.image)
        return system.image

    monkeypatch.setenv(on_debian.VARIABLE, own)
    monkeypatch.setattr(Engine, "has_image", lambda self, name: made and name == OURS)
    monkeypatch.setattr(cluster_images, "succeeds", succeeds)
    monkeypatch.setattr(base, "ensure", ensure)
    found = on_debian.trainer_base(ENGINE)
    if own == "mine/debian:1":
        assert (found, asked, built) == (own, [], [])
    elif made:
        assert (found, asked, built) == (OURS, [], [])
    elif pulled:
        assert (found, asked, built) == (published, ["image"], [])
    else:
        assert asked == ["image", "manifest"]
        assert (found, built) == ((published, []) if reached else (OURS, [OURS]))


def test_an_image_is_made_again_for_another_dockerfile_or_another_base(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file, under, there = tmp_path / "Dockerfile", ["debian:1"], set[str]()
    built: list[tuple[list[str], bytes]] = []

    def run(command: list[str], *, stdin: bytes, **_: Any) -> None:
        built.append((command, stdin))
        there.add(command[command.index("--tag") + 1])

    monkeypatch.setattr(on_debian, "run", run)
    monkeypatch.setattr(on_debian, "trainer_base", lambda engine: under[0])
    monkeypatch.setattr(Engine, "has_image", lambda self, name: name in there)
    monkeypatch.setattr("toolchain.machine.locks.MACHINE", tmp_path)
    file.write_text("ARG BASE\nFROM ${BASE}\n")
    first = on_debian.ensure(ENGINE, "browser", file)
    assert on_debian.ensure(ENGINE, "browser", file) == first
    ((command, text),) = built
    assert "BASE=debian:1" in command
    assert (command[-1], text) == ("-", file.read_bytes())
    under[0] = "debian:2"
    second = on_debian.ensure(ENGINE, "browser", file)
    file.write_text("ARG BASE\nFROM ${BASE}\nUSER 1000\n")
    assert len({first, second, on_debian.ensure(ENGINE, "browser", file)}) == 3
    assert {each.partition(":")[0] for each in there} == {"trainstack/browser"}

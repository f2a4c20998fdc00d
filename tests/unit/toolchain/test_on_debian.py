"""Images of Debian's packages: which base they get, and when they are made again."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from toolchain.images import base, cluster_images, on_debian
from toolchain.machine.engine import Engine
from toolchain.tools import venv

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

    monkeypatch.setenv(cluster_images.CPU_BASE, own)
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


@dataclass
class Builds:
    """An engine in which images are built: `there` are their names, `folders` what each was built from."""

    under: str = "debian:1"
    there: set[str] = field(default_factory=set)
    folders: list[dict[str, str]] = field(default_factory=list)

    def run(self, command: list[str | Path], **_: Any) -> None:
        words = [str(word) for word in command]
        assert f"BASE={self.under}" in words
        self.there.add(words[words.index("--tag") + 1])
        files = [path for path in Path(words[-1]).rglob("*") if path.is_file()]
        self.folders.append({str(path.relative_to(words[-1])): path.read_text() for path in files})


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Builds:
    made = Builds()

    def install(machine: str, python: str, lock: Path, target: Path) -> None:
        target.mkdir()
        (target / "installed").write_text(f"{machine} {python} {lock.read_text()}")

    monkeypatch.setattr(on_debian, "run", made.run)
    monkeypatch.setattr(on_debian, "trainer_base", lambda engine: made.under)
    monkeypatch.setattr(venv, "install_for", install)
    monkeypatch.setattr(Engine, "output", lambda self, *words: "aarch64")
    monkeypatch.setattr(Engine, "has_image", lambda self, name: name in made.there)
    monkeypatch.setattr("toolchain.machine.locks.MACHINE", tmp_path)
    return made


def test_an_image_is_made_again_where_its_files_or_its_base_are_others(
    builds: Builds, tmp_path: Path
) -> None:
    file, lock = tmp_path / "Dockerfile", tmp_path / "some.lock"
    file.write_text("ARG BASE\nFROM ${BASE}\n")
    lock.write_text("numpy==2.0")

    def made() -> tuple[str, str]:
        return on_debian.ensure(ENGINE, "browser", file), on_debian.ensure(ENGINE, "notebook", file, lock)

    first = made()
    assert made() == first
    plain, with_packages = builds.folders
    assert plain == {"Dockerfile": file.read_text()}
    assert with_packages == {**plain, "packages/installed": f"aarch64 {base.PYTHON} numpy==2.0"}
    lock.write_text("numpy==2.1")
    assert made()[0] == first[0]
    assert len(builds.there) == 3
    builds.under = "debian:2"
    made()
    assert len(builds.there) == 5
    file.write_text("ARG BASE\nFROM ${BASE}\nUSER 1000\n")
    made()
    assert len(builds.there) == 7
    assert {each.partition(":")[0] for each in builds.there} == {"trainstack/browser", "trainstack/notebook"}

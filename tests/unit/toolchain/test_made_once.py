"""Two clones that make the same image at once: one makes it, the other waits, and both have it."""

from __future__ import annotations

import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from toolchain import images
from toolchain.images.base import made_once
from toolchain.machine import locks
from toolchain.machine.engine import Engine
from toolchain.steps import SetupError

ENGINE = Engine("docker", ours=True)
IMAGE = "trainstack/node:v1"
ASK_FOR_IMAGES = {
    "base.py": "makes them",
    "cluster_images.py": "says beforehand what will be made",
    "gpu_base.py": "says what has been made",
}


class Making:
    """An engine that gets IMAGE a moment after its making has begun."""

    def __init__(self) -> None:
        self.there = False
        self.times = 0
        self.fails = False
        self.now = threading.Lock()

    def make(self) -> None:
        assert self.now.acquire(blocking=False), "two make it at once"
        try:
            self.times += 1
            time.sleep(0.1)
            if self.fails:
                raise SetupError("no room")
            self.there = True
        finally:
            self.now.release()


@pytest.fixture
def making(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Making:
    made = Making()
    monkeypatch.setattr(locks, "MACHINE", tmp_path / "machine")
    monkeypatch.setattr(locks, "cache", lambda: tmp_path / "cache")
    monkeypatch.setattr(Engine, "has_image", lambda self, name: made.there)
    return made


def at_once(making: Making) -> list[str]:
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda _: made_once(ENGINE, IMAGE, making.make), range(4)))


def test_one_makes_it_and_all_have_it(making: Making) -> None:
    assert at_once(making) == [IMAGE] * 4
    assert making.times == 1
    assert made_once(ENGINE, IMAGE, making.make) == IMAGE
    assert making.times == 1


def test_the_next_one_tries_what_has_failed(making: Making) -> None:
    making.fails = True
    with pytest.raises(SetupError, match="no room"):
        made_once(ENGINE, IMAGE, making.make)
    making.fails = False
    assert at_once(making) == [IMAGE] * 4
    assert making.times == 2


@pytest.mark.parametrize("has_file", [False, True])
def test_users_who_may_not_write_the_machines_folder_take_turns_too(
    making: Making, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, has_file: bool
) -> None:
    if has_file:
        with locks.machine_wide("image-node"):
            """Root has made one before."""
    opened, machine = Path.open, tmp_path / "machine"

    def refuse(path: Path, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if path.parent == machine and "a" in mode:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, mode, *arguments, **options)

    monkeypatch.setattr(Path, "open", refuse)
    assert at_once(making) == [IMAGE] * 4
    assert making.times == 1
    assert (tmp_path / "cache" / "image-node.lock").exists() != has_file


def test_whoever_makes_an_image_takes_turns() -> None:
    folder = Path(images.__file__).parent
    asking = {path.name for path in folder.glob("*.py") if re.search(r"\.has_image\(", path.read_text())}
    assert asking == set(ASK_FOR_IMAGES)

"""What installs the Python packages: a uv that is here, or pip, which brings one. Debian has pip's bundle apart."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from toolchain.machine import engine, packages
from toolchain.operating import setup
from toolchain.steps import SetupError
from toolchain.tools import installed, venv

# Each alone is enough.
WAYS = ("environment", "own uv", "uv of an earlier set-up", "ensurepip", "root on Debian")


@pytest.fixture
def with_way(monkeypatch: pytest.MonkeyPatch, cache: Path, tmp_path: Path) -> Callable[[str], None]:
    """Have a machine with one of WAYS, or with none."""

    def make(way: str) -> None:
        monkeypatch.setattr(venv, "is_complete", lambda: way == "environment")
        monkeypatch.setattr(venv, "which", lambda name: tmp_path / name if way == "own uv" else None)
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: way == "ensurepip" or None)
        monkeypatch.setattr(os, "geteuid", lambda: 0 if way == "root on Debian" else 1000)
        monkeypatch.setattr(packages, "available", lambda: True)
        if way == "uv of an earlier set-up":
            cached = cache / "tools" / f"uv-{venv.UV_VERSION}" / "bin" / "uv"
            cached.parent.mkdir(parents=True)
            cached.touch()

    return make


@pytest.mark.parametrize("way", WAYS)
def test_each_way_is_enough(with_way: Callable[[str], None], way: str) -> None:
    with_way(way)
    venv.check_pip()


def test_without_any_it_says_what_to_install(with_way: Callable[[str], None]) -> None:
    with_way("none")
    with pytest.raises(SetupError, match=r"no ensurepip.*\n.*install python3-venv, or uv"):
        venv.check_pip()


def test_set_up_says_so_before_any_work(
    with_way: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with_way("none")
    own = {name: installed.Choice(name, tmp_path / name) for name in installed.MODULES}
    monkeypatch.setattr(installed, "choose", lambda: own)
    monkeypatch.setattr(engine, "find", lambda: None)
    monkeypatch.setattr(setup, "Jobs", lambda: pytest.fail("work has begun"))
    with pytest.raises(SetupError, match="no ensurepip"):
        setup.prepare()

"""Debian with README's prerequisites and nothing else: two commands do all of it, or one before the network is cut."""

from __future__ import annotations

import pytest

from tests.e2e import machines
from toolchain.machine.engine import Engine

FLOOR = 0.9


@pytest.mark.slow(reason="a root file system, and an engine in it for which every image is made anew")
def test_debian_12_comes_up_without_a_network_after_make_fetch(engine: Engine) -> None:
    with machines.standing("bookworm", "/root/trainstack") as project:
        assert project.machine.reaches_others(), "or the test shows nothing"
        fetched = project.make("fetch")
        assert fetched.returncode == 0, fetched.stdout
        assert not (project.root / ".trainstack" / "kubeconfig").exists(), "no cluster is made"
        project.machine.cut_network()
        assert not project.machine.reaches_others()
        first = project.up()
        assert float(first["accuracy"]) >= FLOOR, first
        assert " unchanged" in project.up()["output"]
        down = project.make("down")
        assert down.returncode == 0, down.stdout
        assert project.up()["accuracy"] == first["accuracy"], "the finished run is taken"


@pytest.mark.slow(reason="a root file system, and an engine in it for which every image is made anew")
def test_debian_13_comes_up_in_a_folder_with_a_space_and_is_as_it_was_after_make_clean(
    engine: Engine,
) -> None:
    with machines.standing("trixie", "/srv/a user/trainstack") as project:
        before = project.machine.packages()
        first = project.up()
        assert float(first["accuracy"]) >= FLOOR, first
        assert project.machine.packages() > before
        for command in ("down", "clean"):
            done = project.make(command)
            assert done.returncode == 0, done.stdout
        assert project.machine.packages() == before
        assert (project.models / "mnist_cnn.pt").exists()

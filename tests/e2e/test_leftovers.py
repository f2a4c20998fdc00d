"""What a killed test session has left goes with the next one; what a living one works with stays."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest

from tests.e2e import clones
from tests.e2e.project import ROOT
from tests.e2e.waiting import HANG_S
from toolchain.machine.engine import Engine

SESSION = """
import sys, time
from itertools import chain
from pathlib import Path
from tests.e2e import clones
clones.HOME = Path(sys.argv[1])
with clones.owned("left") as folder:
    print(folder, flush=True)
    time.sleep(3600)
"""


def container(engine: Engine, label: str) -> str:
    image = os.environ.get("TRAINSTACK_INIT_IMAGE", "busybox:1.37")
    started = ("--detach", "--network", "none", "--label", label, "--entrypoint", "sleep", image, "3600")
    return engine.output("run", *started)


def exists(engine: Engine, container: str) -> bool:
    return bool(engine.output("ps", "--all", "--quiet", "--filter", f"id={container}"))


def test_leftovers_of_the_dead_go_and_those_of_the_living_stay(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clones, "HOME", tmp_path)
    session = subprocess.Popen(
        [sys.executable, "-c", SESSION, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert session.stdout
    folder = Path(session.stdout.readline().strip())
    working = subprocess.Popen(["sleep", "3600"], cwd=folder)
    ours = container(engine, f"{clones.PROJECT_LABEL}={folder}/trainstack")
    others = container(engine, f"{clones.PROJECT_LABEL}={tmp_path}-of-somebody-else")
    try:
        assert clones.sweep(engine) == []
        assert exists(engine, ours)

        session.kill()
        session.wait()

        assert clones.sweep(engine) == [folder.name]
        assert not folder.exists()
        assert not exists(engine, ours)
        assert working.wait(HANG_S) == -signal.SIGKILL
        assert exists(engine, others)
    finally:
        for process in (session, working):
            process.kill()
        engine.output("rm", "--force", ours, others)


def test_what_several_processes_sweep_at_once_is_swept_once(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clones, "HOME", tmp_path)
    folders = [tmp_path / f"left-{number}" for number in range(12)]
    for folder in folders:
        folder.mkdir()
        (folder / "owner").touch()
    with multiprocessing.get_context("fork").Pool(4) as processes:
        swept = processes.map(clones.sweep, [engine] * 4, chunksize=1)
    assert sorted(chain.from_iterable(swept)) == sorted(folder.name for folder in folders)
    assert not any(folder.exists() for folder in folders)


def test_a_removal_that_is_killed_half_way_is_taken_up(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clones, "HOME", tmp_path)
    folder = tmp_path / "left-123456"
    for name in ("a", "z"):
        (folder / name).mkdir(parents=True)
    (folder / clones.OWNER).touch()

    def killed(path: Path, **_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            clones.sweep(engine)
    assert clones.sweep(engine) == [folder.name]
    assert not folder.exists()

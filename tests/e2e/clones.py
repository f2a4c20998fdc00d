"""Clones of this project for tests: made, taken down, and removed with their clusters when a session was interrupted.

Each clone lies in a folder of its own below `HOME`, beside a file `owner` that the session which made it keeps locked.
The kernel gives the lock back when that process ends, however it ends: a clone whose lock is free is a leftover.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, TypeVar

from tests.e2e import layers, processes
from tests.e2e.project import ROOT, Project
from toolchain.machine import engine as engines
from toolchain.machine.engine import Engine
from toolchain.steps import SetupError

HOME = Path(tempfile.gettempdir()) / f"trainstack-tests-{os.getuid()}"
OWNER = "owner"
PROJECT_LABEL = "trainstack.project"
KIND_LABEL = "io.x-k8s.kind.cluster"
P = TypeVar("P", bound=Project)
STANDING: list[Project] = []
"""The clones of this process that are not taken down yet: what a failed test may have to do with."""
_GIT = ("git", "-c", "user.name=test", "-c", "user.email=test@localhost")


@contextmanager
def owned(name: str) -> Iterator[Path]:
    """A folder of this session, `<name>-<random>`; at the end it goes with all containers and volumes of its clones."""
    folder = HOME / f"{name}-{uuid.uuid4().hex[:6]}"
    with _alone():
        folder.mkdir()
        owner = (folder / OWNER).open("w")
        fcntl.flock(owner, fcntl.LOCK_EX)
    with owner:
        try:
            yield folder
        finally:
            _remove(engines.ensure(), folder)


@contextmanager
def temporary(name: str, *, has_layers: bool = True, commit: str = "") -> Iterator[Project]:
    """A clone whose cluster is `<name>-<random>`, taken down and removed at the end.

    Parameters:
        commit: as for `clone`.
        has_layers: whether its registry begins with what an earlier clone of this session was sent; False for tests
            that look at the sending.
    """
    with (
        owned(name) as folder,
        standing(clone(folder / "trainstack", cluster=folder.name, commit=commit)) as project,
    ):
        if has_layers:
            layers.give(project.root)
        yield project
        layers.keep(project.root)


@contextmanager
def standing(project: P) -> Iterator[P]:
    """Inside, a failed test looks at the clone; at the end its stack is taken down."""
    STANDING.append(project)
    try:
        yield project
    finally:
        STANDING.remove(project)
        project.make("down")


@contextmanager
def taken_down(project: Project) -> Iterator[None]:
    """Inside, the stack may be up; it is down at the end, or the test fails."""
    try:
        yield
    finally:
        down = project.make("down")
    assert down.returncode == 0, down.stdout


def clone(target: Path, cluster: str, stack: str = "dev", commit: str = "") -> Project:
    """`unchanged`, but for a cluster name of its own."""
    project = replace(unchanged(target, commit), cluster=cluster, stack=stack)
    project.configure({"trainstack:cluster": {"name": cluster}})
    project.commit("as tested")
    return project


def unchanged(target: Path, commit: str = "") -> Project:
    """Clone the working tree as it is, uncommitted changes included.

    Parameters:
        commit: clone this commit instead.
    """
    subprocess.run([*_GIT, "clone", "--quiet", "--no-hardlinks", str(ROOT), str(target)], check=True)
    if commit:
        checkout = ["checkout", "--quiet", "-B", "measured", commit]  # a detached HEAD fails tests of its own
        subprocess.run([*_GIT, *checkout], cwd=target, check=True)
    else:
        copy_working_tree(target)
    return Project(target, "trainstack-dev")


def copy_working_tree(target: Path) -> None:
    """Copy to `target` what git does not ignore here, uncommitted changes included."""
    listed = subprocess.run(
        [*_GIT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        source, copy = ROOT / name, target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.exists():
            shutil.copy2(source, copy)
        else:
            copy.unlink(missing_ok=True)


def sweep(engine: Engine) -> list[str]:
    """Remove the clones that interrupted sessions left, with their containers; returns the clusters' names."""
    with _alone():
        return [file.parent.name for file in sorted(HOME.glob(f"*/{OWNER}")) if _is_swept(engine, file)]


def _is_swept(engine: Engine, file: Path) -> bool:
    try:
        owner = file.open("r+")
    except FileNotFoundError:  # its session has just ended
        return False
    with owner:
        if not _locks(owner):
            return False
        _remove(engine, file.parent)
        return True


@contextmanager
def _alone() -> Iterator[None]:
    """One process at a time makes or sweeps: each would take what another is just making or removing for a leftover."""
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _locks(owner: IO[str]) -> bool:
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove(engine: Engine, folder: Path) -> None:
    for process in processes.working_in(folder):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    if containers := _containers(engine, folder):
        engine.output("rm", "--force", "--volumes", *containers)
    if volumes := _volumes(engine, folder):
        engine.output("volume", "rm", *volumes)
    for line in Path("/proc/mounts").read_text().splitlines():
        place = line.split()[1].replace("\\040", " ")
        if Path(place).is_relative_to(folder):
            subprocess.run(["umount", "--lazy", place], check=True)
    # The owner's file last: without it, a removal that is killed would leave what nobody sweeps.
    for path in folder.iterdir():
        if path.name != OWNER:
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()
    shutil.rmtree(folder, ignore_errors=True)


def _containers(engine: Engine, folder: Path) -> list[str]:
    """The nodes that mount a marker of a clone below `folder`, and the registries labelled with such a clone."""
    listed: set[str] = set()
    for label in (KIND_LABEL, PROJECT_LABEL):
        listed |= set(engine.output("ps", "--all", "--quiet", "--filter", f"label={label}").split())
    return [each["Id"] for each in _described(engine, sorted(listed), "inspect") if _is_below(each, folder)]


def _volumes(engine: Engine, folder: Path) -> list[str]:
    """What the registries of the clones below `folder` hold."""
    listed = engine.output("volume", "ls", "--quiet", "--filter", f"label={PROJECT_LABEL}").split()
    return [
        each["Name"]
        for each in _described(engine, listed, "volume", "inspect")
        if Path(each["Labels"][PROJECT_LABEL]).is_relative_to(folder)
    ]


def _described(engine: Engine, names: Iterable[str], *words: str) -> Iterator[dict[str, Any]]:
    """What the engine knows of each. Others remove theirs in the meantime."""
    for name in names:
        try:
            yield from json.loads(engine.output(*words, name))
        except SetupError as error:
            if "no such" not in str(error).lower():
                raise


def _is_below(container: dict[str, Any], folder: Path) -> bool:
    places = [mount.get("Source", "") for mount in container.get("Mounts") or []]
    places.append((container["Config"].get("Labels") or {}).get(PROJECT_LABEL, ""))
    return any(Path(place).is_relative_to(folder) for place in places if place)


def main() -> None:
    """Remove what an interrupted session has left; for the one that has interrupted it."""
    if engine := engines.find():
        for name in sweep(engine):
            print(f"removed {name}, which interrupted tests had left")


if __name__ == "__main__":
    main()

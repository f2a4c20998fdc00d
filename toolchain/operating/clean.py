"""`make clean`: what this machine got from us goes; what the user made stays."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from infra import agreed, paths
from toolchain import stack_files
from toolchain.machine import engine
from toolchain.operating import backend, leftovers, setup, state, state_copies, up, user_backend
from toolchain.paths import DATA, LOCAL, MODELS, ROOT, VENV, cache
from toolchain.steps import SetupError, say, step
from toolchain.tools import build

CACHES = (".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis")


def clean(ensure_clean: Callable[[str], None]) -> None:
    """Remove tools, engine, images, installed packages, environment and state. Raises SetupError while in use.

    The state in a backend of the user's is not this clone's: it stays as it is.

    Parameters:
        ensure_clean: as `up.down` takes it, for each stack that stands.
    """
    user_backend.forget_backend()
    standing = [stack for stack in stack_files.names() if state.has_resources(state.deployment(stack))]
    for stack in standing:
        up.down(stack, ensure_clean)
    with setup.project_lock():
        _ensure_nothing_stands()
        answering = engine.find()
        _ensure_no_cluster(answering)
        if answering:
            leftovers.remove_registries(answering)
        if not engine.stop() and os.geteuid() == 0:  # anybody else leaves root's as it is
            raise SetupError(
                "containers still run in the engine that we started",
                "run `make down` in the project folder that they belong to",
            )
        with step("container engine, its images and packages"):
            engine.remove()
        for stack in stack_files.names():
            file = stack_files.file(stack)
            backend.without_salt(file)
            backend.tell_git_of_new_size(file)
        build.clean_caches()
        for folder in (
            cache(),
            DATA / agreed.FOLDERS,
            VENV,
            *(ROOT / name for name in CACHES),
            *ROOT.glob("*.egg-info"),
            LOCAL,
        ):
            _remove(folder)
    backend.forget_filter()
    for kept in (MODELS, DATA):
        if kept.exists():
            say(f"kept: {kept}")


def _ensure_nothing_stands() -> None:
    """Raise SetupError for stacks whose state tells of resources: without it nobody knows that they are ours.

    Their file may be in another commit than the one that is checked out, or another command may have made them while
    this one waited for it.
    """
    held = sorted(each.stem for each in state_copies.STACKS.glob("*.json"))
    if standing := [stack for stack in held if state.has_resources(state.deployment(stack))]:
        first = standing[0]
        raise SetupError(
            f"still up: {', '.join(standing)}; without the state in {LOCAL} nobody knows what it has made",
            f"check stacks/Pulumi.{first}.yaml out, run `make down STACK={first}`, then `make clean`",
        )


def _ensure_no_cluster(answering: engine.Engine | None) -> None:
    """Raise SetupError, before anything of them is touched, for clusters that no state of this clone tells of.

    An engine that does not answer may hold those that were begun.
    """
    if answering is None:
        if begun := leftovers.begun():
            raise SetupError(
                f"{', '.join(begun)}: begun in this clone, and no container engine answers that could hold it",
                f"start that engine, then `make clean`; where it is gone for good, remove {paths.markers()}",
            )
    elif there := leftovers.clusters(answering):
        raise SetupError(
            f"{', '.join(there)}: still there, and no state of this clone's own backend tells of it",
            "run `make down STACK=<its stack>`, with the PULUMI_BACKEND_URL that it was made with, then `make clean`",
        )


def _remove(folder: Path) -> None:
    if folder.exists():
        say(f"removing {folder}")
        shutil.rmtree(folder)

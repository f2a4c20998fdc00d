"""`make clean`: removes what our commands installed; keeps the user's files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

from infra import agreed, paths
from toolchain import stack_files
from toolchain.machine import engine
from toolchain.operating import backend, leftovers, setup, state, state_copies, up, user_backend
from toolchain.paths import DATA, LOCAL, MODELS, ROOT, VENV, cache
from toolchain.steps import SetupError, say, step
from toolchain.tools import build

CACHES = (".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis")


def clean(ensure_clean: Callable[[str], None]) -> None:
    """Remove tools, engine, images, installed packages, environment and state. Stacks that are up are taken down first.

    State in the user's own backend is kept. Raises SetupError if a stack or a cluster is still there after that, or if
    containers still run in our engine.

    Parameters:
        ensure_clean: as for `up.down`, called for each stack that is up.
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
        if not engine.stop() and os.geteuid() == 0:  # other users leave root's engine alone
            raise SetupError(
                "containers still run in the engine that `make up` started",
                "run `make down` in the clone to which these containers belong",
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
            if folder.exists():
                say(f"removing {folder}")
                shutil.rmtree(folder)
    backend.forget_filter()
    for kept in (MODELS, DATA):
        if kept.exists():
            say(f"kept: {kept}")


def _ensure_nothing_stands() -> None:
    """Raise SetupError for stacks whose state names resources: nothing but the state says that these are ours.

    The stack's file may exist only in another commit, or another command may have created the resources while this
    command waited.
    """
    held = sorted(each.stem for each in state_copies.STACKS.glob("*.json"))
    if standing := [stack for stack in held if state.has_resources(state.deployment(stack))]:
        first = standing[0]
        raise SetupError(
            f"stacks that are still up: {', '.join(standing)}; only the state in {LOCAL} records their objects",
            f"restore stacks/Pulumi.{first}.yaml if it is missing, run `make down STACK={first}`, then `make clean`",
        )


def _ensure_no_cluster(answering: engine.Engine | None) -> None:
    """Raise SetupError, with nothing changed, for clusters that no state of this clone names.

    An engine that does not answer may hold clusters whose creation has begun.
    """
    if answering is None:
        if begun := leftovers.begun():
            raise SetupError(
                f"this clone has begun to create cluster {', '.join(begun)}, and no container engine answers",
                "start the engine that may hold it, then `make clean`; "
                f"if that engine no longer exists, remove {paths.markers()}",
            )
    elif there := leftovers.clusters(answering):
        raise SetupError(
            f"cluster {', '.join(there)} still exists, and no state in this clone's own backend names it",
            "run `make down STACK=<its stack>` with the PULUMI_BACKEND_URL that `make up` had, then `make clean`",
        )

"""Set-up: installs, builds and starts what this machine lacks, in parallel; returns the variables for Pulumi."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO

from infra import agreed
from toolchain import stack_files
from toolchain.images import cluster_images, gpu_base
from toolchain.machine import engine, locks, preflight
from toolchain.operating import environment, program_calls, user_backend
from toolchain.parallel import Jobs
from toolchain.paths import DATA, LOCAL, LOGS, ROOT, VENV, cache
from toolchain.steps import SetupError, StoppedError, run, step
from toolchain.tools import build, installed, plugins, venv


@contextmanager
def project_lock() -> Iterator[None]:
    """Hold the lock of this project folder, because two runs at once would undo each other's work.

    Raises SetupError if a run of another user has left files that this user may not write.
    """
    preflight.check_access([LOCAL, VENV, cache()])
    with locks.held(LOCAL / "lock", _waiting) as handle:
        handle.truncate(0)
        handle.write(str(os.getpid()))
        handle.flush()
        yield


def _waiting(handle: IO[str]) -> AbstractContextManager[object]:
    handle.seek(0)
    return step(f"waiting for process {handle.read().strip()}, which works in this folder")


def prepare(stack: str = "", *, builds_image: bool = False) -> dict[str, str]:
    """Prepare tools, packages, engine and images; returns the variables that say where they are. Raises SetupError.

    Parameters:
        stack: prepare for this stack; empty for any. The program kind and the node images are built only for a stack
            that creates its cluster with them.
        builds_image: whether the stack's trainer image is built next. Only then the base of a GPU image is made.
    """
    choices = installed.choose()
    answering = engine.find()
    nodes = makes_nodes(stack)
    images_missing = (
        answering is not None
        and not cluster_images.published(answering, nodes)
        and not cluster_images.all_built(nodes)
    )
    if answering and images_missing:
        cluster_images.may_build(answering, nodes)
    missing = installed.missing(choices, nodes)
    if "kubectl" in missing and answering and cluster_images.kubectl_can_be_pulled(answering):
        missing.remove("kubectl")
    builds = images_missing or bool(missing)
    if builds:
        build.check_go()
    venv.check_pip()
    preflight.check(builds=builds)
    home = plugins.prepare_home(choices["pulumi"].own)
    with Jobs() as jobs:
        packages = jobs.start(venv.ensure)
        running = jobs.start(engine.ensure)
        pulumi = jobs.start(choices["pulumi"].program)
        kind = jobs.start(lambda: _kind(choices["kind"], stack, packages))
        pulumis = jobs.start(lambda: plugins.fetch_provider(pulumi.result(), home))
        early = stack if builds_image and builds else ""
        images = jobs.start(lambda: _images(jobs, running.result(), stack, packages, early))
        gpu = jobs.start(lambda: _gpu_base(stack if builds_image else "", running.result(), packages))
        kubectl = jobs.start(lambda: _kubectl(images.result(), running.result(), choices["kubectl"]))
        links = [("pulumi", pulumi.result()), ("kubectl", kubectl.result())]
        links += [("kind", found_kind)] if (found_kind := kind.result()) else []
        built = [(name, path) for name, path in links if path != choices[name].own]
        pulumis.result()
        found = {**home, **running.result().env, **images.result(), **gpu.result()}
        packages.result()
        # The Pulumi program resolves a project's packages with the uv that made the virtual environment.
        uv = venv.find_uv()
        built += [] if uv == installed.which("uv") else [("uv", uv)]
        found |= venv.uv_cache(uv)
    environment.link(built)
    # Keep what an earlier set-up made for a stack with its own nodes: previews of that stack need it.
    environment.save(found if makes_nodes(stack) else {**(environment.load() or {}), **found})
    return found


def makes_nodes(stack: str) -> bool:
    """Whether kind creates the cluster of `stack`; empty means any stack. Raises SetupError for a wrong stack file."""
    return not stack or environment.cluster_kind(stack).has_our_nodes


def prepare_operators(stack: str) -> dict[str, str]:
    """After `prepare`: prepare the operators of `stack` other than the training-operator. Raises SetupError."""
    told = environment.cluster_access(stack)
    wanted = told.controllers if told else []
    found = cluster_images.controllers(engine.ensure(), makes_nodes(stack), wanted) if wanted else {}
    if found and (known := environment.load()) is not None:
        environment.save(known)  # with the operators that are here now
    return found


def prepare_pulumi() -> dict[str, str]:
    """As `prepare`, without a container engine and images: enough for previews with an existing cluster."""
    choices = {name: each for name, each in installed.choose().items() if name != "kind"}
    if not all(each.is_available for each in choices.values()):
        build.check_go()
    venv.ensure()
    pulumi = choices["pulumi"].program()
    links = [(name, each.program()) for name, each in choices.items() if each.own is None]
    home = plugins.prepare_home(choices["pulumi"].own)
    plugins.fetch_provider(pulumi, home)
    environment.link(links)
    return home


def _kind(choice: installed.Choice, stack: str, packages: Future[Path]) -> Path | None:
    """The path of kind; None if kind is not here and the stack does not need it.

    A stack that changes from kind to another cluster still needs kind, to delete the old cluster.
    """
    packages.result()
    return choice.program() if choice.is_available or makes_nodes(stack) else None


def _images(
    jobs: Jobs, running: engine.Engine, stack: str, packages: Future[Path], early: str
) -> dict[str, str]:
    packages.result()
    return cluster_images.ensure(
        jobs, running, makes_nodes(stack), lambda base: _trainer_image(early, running, base)
    )


def _trainer_image(stack: str, running: engine.Engine, base: dict[str, str]) -> None:
    """If `stack` is not empty, build its trainer image while the compiler leaves disk and network idle.

    `pulumi up` then finds the image. An error is not reported here: `pulumi up` has the same error and shows it.
    """
    if not stack or environment.uses_gpu_base(stack):
        return
    uv = venv.find_uv()  # the Pulumi program resolves a project's packages with uv
    variables = environment.for_stack({**running.env, **base, **venv.uv_cache(uv)}, stack)
    variables["PATH"] = os.pathsep.join([variables["PATH"], str(uv.parent)])
    with step("trainer image, beside the tools") as progress:
        try:
            run(
                venv.command("infra.image.engine_image", stack),
                log=LOGS / "trainer-image.log",
                env=variables,
                unset=user_backend.unwanted(),
                cwd=ROOT,
            )
        except StoppedError:
            raise
        except SetupError:
            progress.conclude("not built; `pulumi up` tries again, and shows the error")


def _gpu_base(stack: str, running: engine.Engine, packages: Future[Path]) -> dict[str, str]:
    packages.result()  # the packages read which base the stack's image has
    wanted = stack and environment.uses_gpu_base(stack)
    return gpu_base.ensure(running) if wanted else gpu_base.known(running)


def _kubectl(images: dict[str, str], running: engine.Engine, kubectl: installed.Choice) -> Path:
    # The build of Kubernetes for the images includes kubectl; a separate build before it would compile it twice.
    del images
    if not kubectl.is_available and cluster_images.kubectl_can_be_pulled(running):
        return cluster_images.pulled_kubectl(running)
    return kubectl.program()


def fetch(stack: str) -> None:
    """Download and build the tools, packages and images of `stack`, so that `make up` needs no network later.

    This creates no cluster. Raises SetupError.
    """
    stack_files.check(stack)
    with project_lock(), preflight.watched():
        try:
            found = prepare(stack, builds_image=True) | prepare_operators(stack)
            variables = environment.for_stack(found, stack)
            _pull_images(engine.ensure(), found, stack)
            with step("trainer image"):
                program_calls.build_image(variables, stack)
        finally:
            engine.stop()  # our engine, if nobody else uses it
    print(
        f"`make up STACK={stack}` now downloads nothing, except images that the cluster's nodes pull themselves"
    )


def _pull_images(running: engine.Engine, found: dict[str, str], stack: str) -> None:
    """Pull the images that a kind cluster and its registry need, except images that set-up has built."""
    if not makes_nodes(stack):
        return
    with venv.program():
        from infra.clusters.kind.component import REGISTRY_IMAGE
    wanted = {
        "kind's node image": found.get(agreed.NODE_IMAGE) or cluster_images.PUBLISHED_NODE,
        "registry": found.get(agreed.REGISTRY_IMAGE) or REGISTRY_IMAGE,
    }
    for name, image in wanted.items():
        if not running.succeeds("image", "inspect", image):
            with step(name):
                run([running.docker, "pull", "--quiet", image], log=LOGS / "images.log", env=running.env)


def copy_verified(folder: Path) -> str:
    """Let the trainer verify the IDX files in `folder` and copy them to data/; returns the data set's name.

    Raises SetupError with the file and both checksums if a file differs from the published one.
    """
    if not folder.is_dir():
        raise SetupError(f"there is no data folder {folder}", "name a folder with the four IDX files")
    with step(f"data from {folder}"):
        cmd = [sys.executable, "-m", "trainer", "data", "copy", str(folder.absolute()), str(DATA)]
        done = subprocess.run(cmd, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SetupError((done.stderr or done.stdout).strip(), f"download the file again into {folder}")
    return str(json.loads(done.stdout)["dataset"])

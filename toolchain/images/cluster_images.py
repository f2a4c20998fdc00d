"""The images that a cluster needs: published images if they can be pulled, else images that we build."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path

from infra import agreed
from toolchain.images import base, control_plane, node, scratch
from toolchain.machine.engine import Engine, daemon
from toolchain.machine.processes import is_linux
from toolchain.parallel import Jobs
from toolchain.paths import LOGS, cache
from toolchain.steps import SetupError, step
from toolchain.tools import build

# The image that kind published for the Kubernetes minor version that tools/kubernetes pins.
PUBLISHED_NODE = (
    "kindest/node:v1.34.0@sha256:7416a61b42b1662ca6ca89f02028ac133a309a2a30ba309614e8ec94d976dc5a"
)
# The modules that every cluster needs, all modules that our own nodes need, and the nodes' root file systems.
OPERATOR = ("training-operator",)
BUILT = ("kubernetes", "registry", *OPERATOR)
_NODE_BASES = (node.DEBIAN, control_plane.PROXY)
CONTROLLERS = {
    "trainer": {
        agreed.JOBSET_IMAGE: ("jobset-controller", "jobset"),
        agreed.TRAINER_IMAGE: ("trainer-controller", "trainer-controller-manager"),
    },
    "kueue": {agreed.KUEUE_IMAGE: ("kueue", "kueue")},
}
"""Controller that a stack may use -> variable that names its image -> folder of toolchain/tools/go, and program."""
ALL = tuple(CONTROLLERS)


def built(nodes: bool) -> tuple[str, ...]:
    """The modules that the images are built from. `nodes`: whether we create the cluster's nodes."""
    return BUILT if nodes else OPERATOR


def all_built(nodes: bool = True) -> bool:
    """Whether every module that the images need is already built."""
    return all(build.built(name) for name in built(nodes))


def published(engine: Engine | None, nodes: bool = True, *, quiet: bool = False) -> bool:
    """Whether the published images are used: the engine holds the published node image, or reaches its registry.

    False without an engine. `quiet`: print no progress line.

    The registry is asked only if an image would have to be built. Images that we built stay in use, so that a cluster
    that runs on them is not replaced.
    """
    if engine is None:
        return False
    if has_published(engine):
        return True
    return not all_built(nodes) and _in_reach(engine.docker, tuple(engine.env.items()), quiet)


def has_published(engine: Engine) -> bool:
    """Whether the engine holds the published node image."""
    return engine.succeeds("image", "inspect", PUBLISHED_NODE)


def reaches_published(engine: Engine) -> bool:
    """Whether the registry of the published node image answers and has the image. Nothing is pulled."""
    return engine.succeeds("manifest", "inspect", PUBLISHED_NODE)


@functools.cache
def _in_reach(docker: str, environment: tuple[tuple[str, str], ...], quiet: bool) -> bool:
    """What `reaches_published` returns, cached so that one command asks the registry once."""
    asked = Engine(docker, ours=False, env=dict(environment))
    if quiet:
        return reaches_published(asked)
    with step("looking for published images") as progress:
        if reaches_published(asked):
            return True
        progress.conclude("they cannot be pulled; they are built here")
    return False


def may_build(engine: Engine, nodes: bool) -> None:
    """Raise SetupError if an image can be neither pulled nor built."""
    if not is_linux():
        raise SetupError(
            "no image registry can be reached, and only Linux can build these images",
            f"give the engine access to registries; to test the access: docker pull {PUBLISHED_NODE}",
        )
    for system in (base.TRAINER_CPU, *(_NODE_BASES if nodes else ())):
        if not engine.has_image(system.image):
            base.may_make(system.image)


def ensure(
    jobs: Jobs, engine: Engine, nodes: bool, with_base: Callable[[dict[str, str]], None]
) -> dict[str, str]:
    """Build the images that cannot be pulled; returns the variables that name them for the Pulumi program.

    Parameters:
        nodes: whether we create the cluster's nodes.
        with_base: called when the trainer image's base is built, in parallel with the other builds. It gets the
            variable that names the base.
    """
    if published(engine, nodes):
        return {agreed.NODE_IMAGE: PUBLISHED_NODE}
    programs = {name: jobs.start(partial(build.build, name)) for name in built(nodes)}
    trainer_base = jobs.start(lambda: base.users_own(agreed.CPU_BASE) or _base(engine, base.TRAINER_CPU))
    jobs.start(lambda: with_base({agreed.CPU_BASE: trainer_base.result()}))
    small = jobs.start(lambda: _small(engine, programs))
    node_image = _node_image(jobs, engine, programs) if nodes else {}
    # The user's own base stays in the shell's variable. Set-up does not record it as its own result.
    own_base = {} if base.users_own(agreed.CPU_BASE) else {agreed.CPU_BASE: trainer_base.result()}
    return {**node_image, **own_base, **small.result()}


def _node_image(jobs: Jobs, engine: Engine, programs: dict[str, Future[Path]]) -> dict[str, str]:
    for system in [jobs.start(partial(_base, engine, system)) for system in _NODE_BASES]:
        system.result()
    return {agreed.NODE_IMAGE: _node(engine, programs)}


def _base(engine: Engine, system: base.RootFileSystem) -> str:
    if engine.has_image(system.image):
        return system.image
    with step(f"Debian {system.suite} for {system.name}"):
        return base.ensure(engine, system, LOGS / f"{system.name}.log")


def _small(engine: Engine, programs: dict[str, Future[Path]]) -> dict[str, str]:
    log = LOGS / "images.log"
    found = {agreed.INIT_IMAGE: scratch.init(engine, cache() / "debian", log)}
    if registry := programs.get("registry"):
        found[agreed.REGISTRY_IMAGE] = scratch.registry(engine, registry.result() / "registry", log)
    program = programs["training-operator"].result() / "training-operator.v1"
    found[agreed.OPERATOR_IMAGE] = scratch.operator(engine, "training-operator", program, log)
    return found


def controllers(engine: Engine, nodes: bool, wanted: Collection[str]) -> dict[str, str]:
    """Build the controllers `wanted`, names of CONTROLLERS, if their images cannot be pulled.

    Returns the variables that name their images for the Pulumi program. Raises SetupError.
    """
    if not wanted or published(engine, nodes):
        return {}
    return {
        variable: scratch.operator(engine, name, build.build(name) / program, LOGS / "images.log")
        for variable, (name, program) in programs_of(wanted).items()
    }


def programs_of(wanted: Collection[str]) -> dict[str, tuple[str, str]]:
    """For the controllers `wanted`: variable that names the image -> module, and program."""
    return {variable: program for name in wanted for variable, program in CONTROLLERS[name].items()}


def names_of(found: Mapping[str, str], wanted: Collection[str]) -> list[str]:
    """Names of the variables that `controllers` returns after `ensure` has returned `found`."""
    return [] if _takes_published(found) else [*programs_of(wanted)]


def known(found: Mapping[str, str], wanted: Collection[str]) -> dict[str, str]:
    """What `controllers` returns, for programs that are already built. This builds nothing and asks no registry.

    Parameters:
        found: what `ensure` has returned.
    """
    if _takes_published(found):
        return {}
    return {
        variable: scratch.operator_image(name, folder / program)
        for variable, (name, program) in programs_of(wanted).items()
        if (folder := build.built(name))
    }


def _takes_published(found: Mapping[str, str]) -> bool:
    return found.get(agreed.NODE_IMAGE) == PUBLISHED_NODE


def _node(engine: Engine, programs: dict[str, Future[Path]]) -> str:
    parts = {path.name: path for path in programs["kubernetes"].result().iterdir()}
    parts["pause"] = scratch.debian_program("catatonit", "catatonit", cache() / "debian")
    files = build.source("kind", "sigs.k8s.io/kind", "images/base/files")
    with step("node image") as progress:
        return node.ensure(engine, parts, files, daemon.is_restricted(), LOGS / "node-image.log", progress)


def kubectl_can_be_pulled(engine: Engine) -> bool:
    """Whether the published node image is used, and its programs run on this machine."""
    return is_linux() and published(engine)


def pulled_kubectl(engine: Engine) -> Path:
    """Copy kubectl out of the published node image, which is pulled if the engine lacks it; returns its path."""
    target = cache() / "tools" / f"kubectl-{PUBLISHED_NODE[-12:]}" / "bin" / "kubectl"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with step("kubectl of the published node image"), tempfile.TemporaryDirectory(dir=target.parent) as part:
        container = engine.output("create", PUBLISHED_NODE)
        try:
            engine.output("cp", f"{container}:/usr/bin/kubectl", part)
        finally:
            engine.output("rm", "--force", "--volumes", container)
        os.replace(f"{part}/kubectl", target)
    return target

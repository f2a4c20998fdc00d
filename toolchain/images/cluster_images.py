"""The images that a cluster needs: published ones where they can be had, else our own."""

from __future__ import annotations

import functools
import os
import subprocess
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
ANSWER_S = 20
# Modules that every cluster may need, and all that nodes of our own need; below them, the nodes' root file systems.
OPERATOR = ("training-operator",)
BUILT = ("kubernetes", "etcd", "coredns", "registry", *OPERATOR)
_NODE_BASES = (node.DEBIAN, control_plane.PROXY)
CONTROLLERS = {
    "trainer": {
        agreed.JOBSET_IMAGE: ("jobset-controller", "jobset"),
        agreed.TRAINER_IMAGE: ("trainer-controller", "trainer-controller-manager"),
    },
    "kueue": {agreed.KUEUE_IMAGE: ("kueue", "kueue")},
}
"""What a stack may ask for -> variable that names an image -> the folder of toolchain/tools/go, and its program."""
ALL = tuple(CONTROLLERS)


def built(nodes: bool) -> tuple[str, ...]:
    """The modules that the images are built from. `nodes`: whether the cluster's nodes are ours to make."""
    return BUILT if nodes else OPERATOR


def all_built(nodes: bool = True) -> bool:
    """Whether every module that the images need has been built before."""
    return all(build.built(name) for name in built(nodes))


def published(engine: Engine | None, nodes: bool = True, *, quiet: bool = False) -> bool:
    """Whether the published images are used: the engine has that of the node, or a registry that it reaches.

    Without an engine they are not. `quiet`: without a line that a registry is asked.

    A registry is asked only where an image would have to be built. Images that were built stay in use, so that the
    cluster that runs on them is not replaced.
    """
    if engine is None:
        return False
    if has_published(engine):
        return True
    return not all_built(nodes) and _in_reach(engine.docker, tuple(engine.env.items()), quiet)


def has_published(engine: Engine) -> bool:
    """Whether the engine holds the published node image."""
    return succeeds(engine, "image", "inspect", PUBLISHED_NODE)


def reaches_published(engine: Engine) -> bool:
    """Whether its registry tells of the published node image. Nothing is pulled."""
    return succeeds(engine, "manifest", "inspect", PUBLISHED_NODE)


@functools.cache
def _in_reach(docker: str, environment: tuple[tuple[str, str], ...], quiet: bool) -> bool:
    """Asked once in a command."""
    asked = Engine(docker, ours=False, env=dict(environment))
    if quiet:
        return reaches_published(asked)
    with step("asking for published images") as progress:
        if reaches_published(asked):
            return True
        progress.conclude("none can be had here; they are built")
    return False


def succeeds(engine: Engine, *arguments: str) -> bool:
    """Whether `docker <arguments>` does within ANSWER_S seconds: a registry out of reach may never answer."""
    variables = {**os.environ, **engine.env}
    command = [engine.docker, *arguments]
    try:
        done = subprocess.run(command, env=variables, capture_output=True, timeout=ANSWER_S)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def may_build(engine: Engine, nodes: bool) -> None:
    """Raise SetupError where what cannot be pulled cannot be built either."""
    if not is_linux():
        raise SetupError(
            "no image registry can be reached, and images for Linux are built on Linux alone",
            f"have the engine reach registries: docker pull {PUBLISHED_NODE}",
        )
    for system in (base.TRAINER_CPU, *(_NODE_BASES if nodes else ())):
        if not engine.has_image(system.image):
            base.may_make(system.image)


def ensure(
    jobs: Jobs, engine: Engine, nodes: bool, with_base: Callable[[dict[str, str]], None]
) -> dict[str, str]:
    """Build what cannot be pulled; returns the variables that tell the Pulumi program where it is.

    Parameters:
        nodes: whether the cluster's nodes are ours to make.
        with_base: called beside the other builds with the variable that names the trainer image's base, once that is
            built.
    """
    if published(engine, nodes):
        return {agreed.NODE_IMAGE: PUBLISHED_NODE}
    programs = {name: jobs.start(partial(build.build, name)) for name in built(nodes)}
    trainer_base = jobs.start(lambda: base.users_own(agreed.CPU_BASE) or _base(engine, base.TRAINER_CPU))
    jobs.start(lambda: with_base({agreed.CPU_BASE: trainer_base.result()}))
    small = jobs.start(lambda: _small(engine, programs))
    node_image = _node_image(jobs, engine, programs) if nodes else {}
    # The user's own base stays in the shell's variable, and out of the record of what set-up has set.
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
    init = scratch.init(engine, cache() / "debian", log)
    registry = programs.get("registry")
    own = scratch.registry(engine, registry.result() / "registry", log) if registry else ""
    return {
        agreed.INIT_IMAGE: init,
        **({agreed.REGISTRY_IMAGE: own} if own else {}),
        agreed.OPERATOR_IMAGE: scratch.operator(
            engine,
            "training-operator",
            programs["training-operator"].result() / "training-operator.v1",
            log,
        ),
    }


def controllers(engine: Engine, nodes: bool, wanted: Collection[str]) -> dict[str, str]:
    """Build the controllers `wanted`, names of CONTROLLERS, where their images cannot be pulled.

    Returns the variables that tell the Pulumi program where they are. Raises SetupError.
    """
    if not wanted or published(engine, nodes):
        return {}
    return {
        variable: scratch.operator(engine, name, build.build(name) / program, LOGS / "images.log")
        for variable, (name, program) in programs_of(wanted).items()
    }


def programs_of(wanted: Collection[str]) -> dict[str, tuple[str, str]]:
    """Of the controllers `wanted`: variable that names the image -> module, and program."""
    return {variable: program for name in wanted for variable, program in CONTROLLERS[name].items()}


def names_of(found: Mapping[str, str], wanted: Collection[str]) -> list[str]:
    """Names of the variables that `controllers` returns where `ensure` has returned `found`."""
    return [] if _takes_published(found) else [*programs_of(wanted)]


def known(found: Mapping[str, str], wanted: Collection[str]) -> dict[str, str]:
    """What `controllers` returns, as far as it is on this machine. Nothing is made, and nobody is asked.

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
    kubernetes = programs["kubernetes"].result()
    parts = {path.name: path for path in kubernetes.iterdir()}
    parts["etcd"] = programs["etcd"].result() / "etcd"
    parts["coredns"] = programs["coredns"].result() / "coredns"
    parts["pause"] = scratch.debian_program("catatonit", "catatonit", cache() / "debian")
    files = build.source("kind", "sigs.k8s.io/kind", "images/base/files")
    with step("node image") as progress:
        return node.ensure(engine, parts, files, daemon.is_restricted(), LOGS / "node-image.log", progress)


def kubectl_can_be_pulled(engine: Engine) -> bool:
    """Whether the published node image is used here, and its programs run here."""
    return is_linux() and published(engine)


def pulled_kubectl(engine: Engine) -> Path:
    """Path of kubectl, after copying it out of the published node image, which is pulled where the engine lacks it."""
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

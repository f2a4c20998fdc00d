"""Estimates how long `make up` takes, from what is missing here and from the times of the last `make up`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress

from infra import agreed
from infra.atomic_file import write_whole
from toolchain.images import cluster_images
from toolchain.machine import engine, processes
from toolchain.operating import setup
from toolchain.paths import LOCAL, cache
from toolchain.steps import phase_times
from toolchain.tools import build, installed, venv

FILE = LOCAL / "times.json"
# Rough seconds on two cores with empty caches, used if something has to be built. Their sum is the middle of the
# cold starts in docs/internals/measurements.csv, 12 to 18 minutes, minus later savings in compile time.
BUILD_S = {
    "kubernetes": 325,
    "kubectl": 60,
    "pulumi": 170,
    "training-operator": 85,
    "registry": 45,
    "kind": 10,
}
BESIDE_S, NODE_IMAGE_S = 150, 30
"""Images and packages take at least BESIDE_S. They are made while the tools compile; the node image needs the tools."""

PULLS_S, PACKAGES_S, STACK_S = 90, 60, 90
CORES = 2


def missing_builds(nodes: bool) -> list[str]:
    """What this machine has to build: tools, and programs of images that cannot be pulled.

    Parameters:
        nodes: whether we create the cluster's nodes.
    """
    pulled = cluster_images.published(engine.find(), nodes)
    names = installed.missing(installed.choose(), nodes)
    names -= {"kubectl"} if pulled and processes.is_linux() else set()
    # With our own nodes, all of Kubernetes is built, including kubectl.
    wanted = [installed.MODULES[name] if nodes and not pulled else name for name in names]
    if not pulled and not cluster_images.all_built(nodes):
        wanted += [name for name in cluster_images.built(nodes) if not build.built(name)]
    return sorted(set(wanted))


def will_pull(nodes: bool) -> bool:
    """Whether the published node image is used and the engine does not have it yet."""
    answering = engine.find()
    is_here = answering is not None and cluster_images.has_published(answering)
    return nodes and not is_here and cluster_images.published(answering, nodes)


def estimate(stack: str) -> str:
    """The estimate that `make up` prints first; empty if nothing is known."""
    nodes = setup.makes_nodes(stack)
    builds, pulls = missing_builds(nodes), will_pull(nodes)
    if builds or pulls or not venv.is_complete():
        return cold_start(builds, not venv.is_complete(), pulls)
    total = last_times().get(f"make up {stack}")
    return f"   the last `make up` of {stack} here took {_about(total)}" if total else ""


def cold_start(builds: Sequence[str], packages: bool, pulls: bool) -> str:
    """Why a start takes long, about how long, and how to shorten it.

    Parameters:
        builds: tools that have to be built.
        packages: whether the Python packages are missing.
        pulls: whether images are pulled.
    """
    parts = [
        f"builds {', '.join(builds)} from source" + (", then the images" if _makes_images(builds) else "")
    ]
    parts = parts if builds else []
    parts += ["pulls images"] if pulls else []
    parts += ["downloads the Python packages"] if packages else []
    what = ", and ".join(parts)
    seconds = _seconds(builds, packages, pulls)
    lines = [f"   this start takes about {_about(seconds)}: it {what}; later starts do not"]
    if builds:
        lines.append(
            f"   to shorten this start: copy {cache()} from another machine, or put pulumi, kind and kubectl on PATH"
        )
    return "\n".join(lines)


def _makes_images(builds: Sequence[str]) -> bool:
    return not set(builds).isdisjoint(cluster_images.BUILT)


def _seconds(builds: Sequence[str], packages: bool, pulls: bool) -> float:
    compiling = sum(BUILD_S[name] for name in builds) * CORES / processes.cores()
    if _makes_images(builds):
        return max(compiling, BESIDE_S) + NODE_IMAGE_S + STACK_S
    return max(compiling, PACKAGES_S if packages else 0) + (PULLS_S if pulls else 0) + STACK_S


def last_times() -> dict[str, float]:
    """Phase, or `make up <stack>` -> its seconds in the last successful `make up`."""
    found = agreed.mapping(FILE).items()
    return {name: float(value) for name, value in found if isinstance(value, int | float)}


def keep(stack: str, seconds: float) -> None:
    """Save this run's times, `seconds` in all, for the next run. If they cannot be saved, nothing fails.

    The total of a start that has built tools is not saved: the next start does not build these tools again.
    """
    times = dict(phase_times())
    whole = {} if any(name.startswith(build.STEP) for name in times) else {f"make up {stack}": seconds}
    with suppress(OSError):
        write_whole(FILE, json.dumps({**last_times(), **times, **whole}))


def _about(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"

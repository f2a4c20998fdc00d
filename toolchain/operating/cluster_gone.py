"""Proof that a stack's cluster is gone, from whoever owns it. An API server that does not answer proves nothing."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping

from infra import agreed
from toolchain.machine.engine import Engine
from toolchain.operating import leftovers, state
from toolchain.operating.environment import for_child

CONTROL_PLANE = "io.x-k8s.kind.role=control-plane"


def proved(deployment: state.Deployment, engine: Engine, variables: Mapping[str, str]) -> bool:
    """Whether the cluster in `deployment` is gone, and its objects with it.

    Of a kind cluster the container engine says so: it answers, and has no control plane that mounts the cluster's
    marker. The marker says so where an interrupted replacement has begun another cluster. Of MicroK8s snapd says so. A
    cluster by kubeconfig is somebody else's, and never proved gone.
    """
    if name := state.kind_cluster(deployment):
        begun = leftovers.unfinished(name)
        return (begun is not None and begun != state.instance(deployment)) or not leftovers.nodes(
            engine, name, CONTROL_PLANE
        )
    if state.of_type(deployment, agreed.MICROK8S):
        return _snap_is_gone(variables)
    return False


def _snap_is_gone(variables: Mapping[str, str]) -> bool:
    snap = shutil.which("snap", path=variables["PATH"])
    if not snap:
        return False
    done = subprocess.run(
        [snap, "list", "microk8s"], env=for_child(variables), capture_output=True, text=True
    )
    return done.returncode != 0 and "no matching snaps installed" in done.stderr

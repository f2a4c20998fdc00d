"""Starts the stopped parts of the stack's own cluster before Pulumi's refresh, which would fail without them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

from toolchain.machine import engine
from toolchain.operating import environment, leftovers
from toolchain.paths import ROOT
from toolchain.steps import SetupError, say, step
from toolchain.tools import venv


def repair(variables: Mapping[str, str], stack: str) -> None:
    """Start nodes and registry of the stack's cluster and write its kubeconfig, where any of it is amiss.

    Says what it did. Raises SetupError when the cluster cannot be made to work, nothing of it is replaced then; and
    when there is one of that name that this clone did not make.
    """
    cluster = environment.cluster(stack)
    if cluster is None or not (
        leftovers.marker(cluster).exists() or leftovers.nodes_of_anybody(engine.ensure(), cluster)
    ):
        return
    cmd = venv.command("infra.clusters.repair", cluster)
    with step(f"cluster {cluster}"):
        done = subprocess.run(
            cmd, cwd=ROOT, env=environment.for_child(variables), capture_output=True, text=True
        )
        for line in done.stdout.splitlines():
            say(f"   {line}")
        if done.returncode:
            raise SetupError(done.stderr.strip())

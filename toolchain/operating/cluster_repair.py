"""Starts the stopped parts of the stack's own cluster before Pulumi's refresh, which would fail without them."""

from __future__ import annotations

from collections.abc import Mapping

from toolchain.machine import engine
from toolchain.operating import environment, leftovers
from toolchain.steps import say, step
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
    with step(f"cluster {cluster}"), venv.program(environment.for_child(variables)):
        from infra.clusters import repair as program

        program.repair(cluster, lambda line: say(f"   {line}"))

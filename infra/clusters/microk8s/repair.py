"""Brings a MicroK8s that is installed back to work: started, kubeconfig file written."""

from __future__ import annotations

from collections.abc import Callable

from infra import paths
from infra.clusters.microk8s import commands, installation


def is_working(name: str) -> bool:
    """Whether it runs and the kubeconfig file is there. `name`: of the stack's cluster."""
    return paths.kubeconfig(name).exists() and commands.running()


def repair(name: str, say: Callable[[str], None]) -> bool:
    """Start it where it is stopped, and write a missing kubeconfig; True when something had to be done.

    Where it is not installed, nothing is done. `say` gets a line for each thing done. Raises MicroK8sError.
    """
    if not commands.installed() or is_working(name):
        return False
    if not commands.running():
        commands.start()
        commands.wait_ready()
        say("microk8s was stopped: started")
    if not paths.kubeconfig(name).exists():
        installation.write_kubeconfig(name)
        say("kubeconfig of microk8s was missing: written again")
    return True

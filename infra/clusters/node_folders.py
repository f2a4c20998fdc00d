"""The nodes to which the stack's pods may be scheduled: each node has its own hostPath folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from infra.agreed import listed
from infra.config import ConfigError, Stack
from infra.config.errors import not_allowed

SHOWN = 5
KEEPS_OUT = ("NoSchedule", "NoExecute")
Taints = Sequence[Mapping[str, Any]]


def ensure_one_folder(stack: Stack, nodes: Mapping[str, Taints]) -> None:
    """Raises ConfigError if pods may run on several nodes: all nodes except one would have an empty folder.

    Parameters:
        nodes: name -> taints of each node that takes new pods.
    """
    config, node = stack.storage, stack.storage.node
    if not stack.has_folder:
        return
    if node and nodes and node not in nodes:
        fix = f"write `node: {next(iter(nodes))}`, or remove `node`"
        raise _refused(stack, node, f"a node that takes pods: {listed(list(nodes), SHOWN)}", fix)
    usable = reached(stack, nodes)
    if len(usable) > 1 and not node and not config.shared:
        allowed = (
            f"the node that has the folder, because pods may run on several nodes: {listed(usable, SHOWN)}"
        )
        fix = f"add `node: {usable[0]}`, or `shared: true` if all these nodes have the same folder"
        raise _refused(stack, "(absent)", allowed, fix)


def reached(stack: Stack, nodes: Mapping[str, Taints]) -> list[str]:
    """Names of the nodes that accept pods of at least one job."""
    tolerations = [job.pod_spec.get("tolerations") or [] for job in stack.jobs]
    return [name for name, taints in nodes.items() if any(is_taken(taints, each) for each in tolerations)]


def _refused(stack: Stack, value: str, allowed: str, fix: str) -> ConfigError:
    return not_allowed(stack.file, "trainstack:storage.node", value, allowed, fix)


def is_taken(taints: Taints, tolerations: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a node with `taints` accepts pods with `tolerations`.

    Source: https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
    """
    return all(_is_tolerated(taint, tolerations) for taint in taints if taint.get("effect") in KEEPS_OUT)


def _is_tolerated(taint: Mapping[str, Any], tolerations: Sequence[Mapping[str, Any]]) -> bool:
    return any(
        (each.get("key") or taint["key"]) == taint["key"]
        and (each.get("effect") or taint["effect"]) == taint["effect"]
        and (each.get("operator") == "Exists" or (each.get("value") or "") == (taint.get("value") or ""))
        for each in tolerations
    )

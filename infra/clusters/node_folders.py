"""The nodes to which the stack's pods may be scheduled: each node has its own hostPath folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from infra.agreed import listed
from infra.config import ConfigError, Stack
from infra.config.errors import not_allowed
from infra.config.job import JobConfig

SHOWN = 5
KEEPS_OUT = ("NoSchedule", "NoExecute")
Node = Mapping[str, Any]
"""An object of the API."""


@dataclass(frozen=True)
class Placement:
    """The constraints that decide on which nodes the pods of a job may run.

    Parameters:
        labels: the labels of its nodes (`nodeSelector`).
        tolerations: of its pods, in the API's form. Affinity is ignored: it can only exclude nodes.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def of(cls, job: JobConfig) -> Placement:
        """The placement of the pods of a job of the stack file."""
        spec = job.pod_spec
        return cls(spec.get("nodeSelector") or {}, spec.get("tolerations") or [])

    def takes(self, node: Node) -> bool:
        """Whether pods may run on `node`, an object of the API."""
        labels = node["metadata"].get("labels") or {}
        return self.labels.items() <= labels.items() and _is_taken(
            node["spec"].get("taints") or [], self.tolerations
        )


def reached(nodes: Sequence[Node], placements: Sequence[Placement]) -> list[str]:
    """Names of the nodes that accept pods of one of the jobs now. Cordoned and unready nodes accept none."""
    return sorted(
        node["metadata"]["name"]
        for node in nodes
        if not node["spec"].get("unschedulable") and any(each.takes(node) for each in placements)
    )


def ensure_one_folder(stack: Stack, nodes: Sequence[Node]) -> None:
    """Raises ConfigError if pods may run on several nodes: all nodes except one would have an empty folder.

    Parameters:
        nodes: the nodes that take new pods.
    """
    config, node = stack.storage, stack.storage.node
    if not stack.has_folder:
        return
    names = [each["metadata"]["name"] for each in nodes]
    if node and names and node not in names:
        fix = f"write `node: {names[0]}`, or remove `node`"
        raise _refused(stack, node, f"a node that takes pods: {listed(names, SHOWN)}", fix)
    usable = reached(nodes, [Placement.of(job) for job in stack.jobs])
    if len(usable) > 1 and not node and not config.shared:
        allowed = (
            f"the node that has the folder, because pods may run on several nodes: {listed(usable, SHOWN)}"
        )
        fix = f"add `node: {usable[0]}`, or `shared: true` if all these nodes have the same folder"
        raise _refused(stack, "(absent)", allowed, fix)


def _refused(stack: Stack, value: str, allowed: str, fix: str) -> ConfigError:
    return not_allowed(stack.file, "trainstack:storage.node", value, allowed, fix)


def _is_taken(taints: Sequence[Mapping[str, Any]], tolerations: Sequence[Mapping[str, Any]]) -> bool:
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

"""Which nodes have to see the folder: those to which pods of the stack's jobs may come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from infra.clusters.node_folders import is_taken
from infra.config.job import JobConfig


@dataclass(frozen=True)
class Placement:
    """The constraints that decide on which nodes the pods of a job may run.

    Parameters:
        labels: those that its nodes have (`nodeSelector`).
        tolerations: of its pods, as the API has them. An affinity is not asked: it can only leave nodes out.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def of(cls, job: JobConfig) -> Placement:
        """The placement of the pods of a job of the stack file."""
        spec = job.pod_spec
        return cls(spec.get("nodeSelector") or {}, spec.get("tolerations") or [])

    @classmethod
    def from_props(cls, props: Mapping[str, Any]) -> Placement:
        """From what `props` returns."""
        return cls(props["labels"], props["tolerations"])

    def props(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "labels": dict(self.labels),
            "tolerations": [dict(each) for each in self.tolerations],
        }

    def takes(self, node: Mapping[str, Any]) -> bool:
        """Whether pods may come to `node`, as the API has it."""
        labels = node["metadata"].get("labels") or {}
        return self.labels.items() <= labels.items() and is_taken(
            node["spec"].get("taints") or [], self.tolerations
        )


def reached(nodes: Sequence[Mapping[str, Any]], placements: Sequence[Placement]) -> list[str]:
    """Names of those that take pods of one of the jobs now; cordoned ones, and those that are not ready, take none.

    Parameters:
        nodes: as the API has them.
    """
    return sorted(
        node["metadata"]["name"]
        for node in nodes
        if not node["spec"].get("unschedulable") and any(each.takes(node) for each in placements)
    )

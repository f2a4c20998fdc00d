"""Fields of our helper pods, which run the jobs' image on the jobs' nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from infra.config.job import JobConfig

FIELDS = ("tolerations", "imagePullSecrets")
"""Lists that a helper pod takes from the pod's spec in `job.pod`."""


def membership(group: int) -> dict[str, Any]:
    """The field of a security context that adds the volume's `group`. All our pods are also in group 0."""
    return {"supplementalGroups": [group]} if group else {}


def spec_fields(jobs: Iterable[JobConfig], group: int = 0) -> dict[str, Any]:
    """FIELDS for a pod that serves all `jobs`, each entry once. A field without entries is left out.

    Parameters:
        group: the group of the volume's folder, if the pod reads or writes there.
    """
    jobs = list(jobs)
    found = {name: [each for job in jobs for each in job.pod_spec.get(name) or []] for name in FIELDS}
    context = {"securityContext": member} if (member := membership(group)) else {}
    return context | {
        name: [each for place, each in enumerate(entries) if each not in entries[:place]]
        for name, entries in found.items()
        if entries
    }

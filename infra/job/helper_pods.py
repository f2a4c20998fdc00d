"""What pods of ours beside the replicas need to run the jobs' image on the jobs' nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from infra.config.job import JobConfig

FIELDS = ("tolerations", "imagePullSecrets")
"""Lists of a pod's spec that `job.pod` may have."""


def membership(group: int) -> dict[str, Any]:
    """Of a pod's security context: what makes it a member of the volume's `group`. Every pod of ours is in group 0."""
    return {"supplementalGroups": [group]} if group else {}


def spec_fields(jobs: Iterable[JobConfig], group: int = 0) -> dict[str, Any]:
    """FIELDS for a pod that serves all `jobs`: each entry once; no field without an entry.

    Parameters:
        group: that of the volume's folder, where the pod is to read or write in it.
    """
    jobs = list(jobs)
    found = {name: [each for job in jobs for each in job.pod_spec.get(name) or []] for name in FIELDS}
    context = {"securityContext": member} if (member := membership(group)) else {}
    return context | {
        name: [each for place, each in enumerate(entries) if each not in entries[:place]]
        for name, entries in found.items()
        if entries
    }

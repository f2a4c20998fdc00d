"""Labels and annotations that our objects carry."""

from __future__ import annotations

MANAGED_BY = {"app.kubernetes.io/managed-by": "trainstack"}
RUN = "trainstack/run"
# Which stack made an object: what lacks it was there before, and is left alone.
STACK = "trainstack/stack"
# Two stacks may have one name. This is the random id that only the state of the stack that made the object holds.
OWNER = "trainstack/owner"
# On every pod of a job, in a rendering for engines too, whose jobs have other names.
OF_JOB = "pytorch_job_name"
SKIP_AWAIT = {"pulumi.com/skipAwait": "true"}


def stack_labels(stack: str) -> dict[str, str]:
    """The labels that say which stack made an object."""
    return {**MANAGED_BY, STACK: stack}

"""Labels and annotations that our objects carry."""

from __future__ import annotations

MANAGED_BY = {"app.kubernetes.io/managed-by": "trainstack"}
RUN = "trainstack/run"
# Which stack made an object: what lacks it was there before, and is left alone.
STACK = "trainstack/stack"
SKIP_AWAIT = {"pulumi.com/skipAwait": "true"}
POD_SECURITY = "pod-security.kubernetes.io"


def owned(stack: str) -> dict[str, str]:
    return {**MANAGED_BY, STACK: stack}


def pod_security(level: str) -> dict[str, str]:
    """Labels of a namespace that enforces `level` and tells what `restricted` would refuse."""
    return {
        f"{POD_SECURITY}/enforce": level,
        f"{POD_SECURITY}/warn": "restricted",
        f"{POD_SECURITY}/audit": "restricted",
    }

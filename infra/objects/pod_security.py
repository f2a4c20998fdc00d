"""Pod Security: the labels of a namespace that enforces a level, and a container that the strictest level admits."""

from __future__ import annotations

from typing import Any

POD_SECURITY = "pod-security.kubernetes.io"


def namespace_labels(level: str) -> dict[str, str]:
    """Labels of a namespace that enforces `level` and reports what `restricted` would refuse.

    Source: https://kubernetes.io/docs/concepts/security/pod-security-admission/
    """
    return {
        f"{POD_SECURITY}/enforce": level,
        f"{POD_SECURITY}/warn": "restricted",
        f"{POD_SECURITY}/audit": "restricted",
    }


def restricted_container() -> dict[str, Any]:
    """A container's security context that the Pod Security level `restricted` admits.

    Source: https://kubernetes.io/docs/concepts/security/pod-security-standards/
    """
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }

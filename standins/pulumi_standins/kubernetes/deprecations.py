"""Built-in kinds that the server has dropped, and those that others have replaced."""

from __future__ import annotations

from pulumi_standins.kubernetes.objects import Kind
from pulumi_standins.kubernetes.typed_client import api_lifecycles

Release = tuple[int, int]

# Kinds whose Go types are gone, or in other modules than the table is made from: brought, dropped, replaced by.
_OTHERS = {
    "apiextensions.k8s.io/v1beta1/CustomResourceDefinition": (
        "1.7",
        "1.22",
        "apiextensions.k8s.io/v1/CustomResourceDefinition",
    ),
    "apiregistration.k8s.io/v1beta1/APIService": ("1.10", "", "apiregistration.k8s.io/v1/APIService"),
    "batch/v2alpha1/CronJob": ("1.8", "1.21", "batch/v1/CronJob"),
    "extensions/v1beta1/PodSecurityPolicy": ("1.3", "1.16", "policy/v1beta1/PodSecurityPolicy"),
    "policy/v1beta1/PodSecurityPolicy": ("1.3", "1.25", ""),
}
# Older than any release that we meet.
_ALWAYS: Release = (1, 9)


class RemovedKindError(Exception):
    """The server's release has dropped the kind, so no CRD will bring it."""


def release_of(version: dict[str, str]) -> Release:
    """The release from the server's answer to /version; some append a plus sign to the minor number."""
    digits = ["".join(filter(str.isdigit, version.get(part, ""))) for part in ("major", "minor")]
    return int(digits[0] or 0), int(digits[1] or 0)


def check_served(kind: Kind, server: Release) -> None:
    """Raise RemovedKindError for a kind that this release has dropped."""
    _, dropped, instead = _lifecycle(kind)
    if dropped and server >= _release(dropped):
        raise RemovedKindError(
            f'apiVersion "{kind}" was removed in Kubernetes {dropped}. Use "{instead or kind}" instead.\n'
            f"See https://git.k8s.io/kubernetes/CHANGELOG/CHANGELOG-{dropped}.md#deprecation for more information."
        )


def deprecation(kind: Kind, server: Release) -> str:
    """The warning about a kind that has a successor in this release, or the empty string."""
    _, dropped, instead = _lifecycle(kind)
    if not instead or server < _release(_known(instead)[0]):
        return ""
    until = f" and not supported by Kubernetes v{dropped}+ clusters." if dropped else "."
    return f"{kind} is deprecated by {instead}{until}"


def _lifecycle(kind: Kind) -> tuple[str, str, str]:
    return _known(str(kind))


def _known(name: str) -> tuple[str, str, str]:
    brought, dropped, instead = api_lifecycles().get(name) or _OTHERS.get(name, ("", "", ""))
    return brought, dropped, instead


def _release(text: str) -> Release:
    if not text:
        return _ALWAYS
    major, minor = text.split(".")
    return int(major), int(minor)

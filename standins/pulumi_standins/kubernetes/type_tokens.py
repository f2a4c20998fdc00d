"""Pulumi's type tokens: which Kubernetes kind a resource is, and whether it is a Patch or a List."""

from __future__ import annotations

from pulumi_standins.kubernetes.objects import Kind

# Groups whose kinds the SDK generates; only in these are `XPatch` a Patch and `XList` a List.
_K8S_IO = (
    "admissionregistration apiextensions apiregistration auditregistration authentication authorization "
    "certificates coordination discovery events flowcontrol.apiserver internal.apiserver lifecycle networking "
    "node rbac.authorization resource scheduling settings storage storagemigration"
)
KNOWN_GROUPS = {"", "apps", "autoscaling", "batch", "core", "extensions", "meta", "policy"}
KNOWN_GROUPS |= {f"{name}.k8s.io" for name in _K8S_IO.split()}


def type_of(urn: str) -> str:
    """The type token of a URN, without its parents' types."""
    return urn.split("::")[2].rpartition("$")[2]


def name_of(urn: str) -> str:
    """The name that the program gave the resource."""
    return urn.split("::", 3)[3]


def kind_of(urn: str) -> Kind:
    """The Kubernetes kind; `XPatch` stays `XPatch`. Raises ValueError for a type without a Kubernetes object."""
    package, _, rest = type_of(urn).partition(":")
    module, _, kind = rest.partition(":")
    group, slash, version = module.rpartition("/")
    if package != "kubernetes" or not slash:
        raise ValueError(f"unrecognized resource type: {type_of(urn)!r} for this provider")
    return Kind("" if group == "core" else group, version, kind)


def is_patch(urn: str, kind: str) -> bool:
    """Whether the resource changes an object that others own. `kind` is the object's own kind.

    A custom kind may also end in Patch, so the type must differ from the object's kind.
    """
    declared = kind_of(urn)
    if declared.group in KNOWN_GROUPS:
        return declared.kind.endswith("Patch")
    return declared.kind.endswith("Patch") and declared.kind == f"{kind}Patch"


def is_list(urn: str) -> bool:
    """Whether the type is one of the SDK's List kinds."""
    declared = kind_of(urn)
    return declared.group in KNOWN_GROUPS and declared.kind.endswith("List")


def is_known(kind: Kind) -> bool:
    """Whether the kind is built into Kubernetes; custom resources are not."""
    return kind.group in KNOWN_GROUPS

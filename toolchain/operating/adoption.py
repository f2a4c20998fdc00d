"""Objects whose creation was interrupted: put into the state, so that a refresh finds out whether they exist.

Pulumi can only forget a pending creation (in 3.246 `--import-pending-creates` forgets it, too), and then creating
the object again fails where the killed run had already created it. Everything else that our program creates takes
over what it finds by itself.
"""

from __future__ import annotations

from typing import Any

KUBERNETES = "kubernetes:"


def adopt(deployment: dict[str, Any]) -> list[str]:
    """Turn pending creations of Kubernetes objects in an exported deployment into resources; returns their URNs."""
    resources: list[dict[str, Any]] = deployment.get("resources") or []
    known = {resource["urn"] for resource in resources}
    adopted = []
    for operation in deployment.get("pending_operations") or []:
        resource = operation["resource"]
        identity = object_id(resource.get("inputs") or {})
        interrupted = operation["type"] == "creating" and resource["type"].startswith(KUBERNETES)
        # A parent that is not there yet was itself pending: nothing of it exists.
        if interrupted and identity and resource["urn"] not in known and resource.get("parent") in known:
            resources.append({**resource, "id": identity, "outputs": resource["inputs"]})
            known.add(resource["urn"])
            adopted.append(resource["urn"])
    deployment["resources"] = resources
    deployment["pending_operations"] = []
    return adopted


def object_id(inputs: dict[str, Any]) -> str | None:
    """The id that the kubernetes plugin gives: `namespace/name`, or `name` for what has no namespace."""
    metadata = inputs.get("metadata") or {}
    namespace, name = metadata.get("namespace"), metadata.get("name")
    if not isinstance(name, str):
        return None
    return f"{namespace}/{name}" if isinstance(namespace, str) else name

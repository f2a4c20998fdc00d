"""Adds to the state the objects that exist only in the cluster, so that a refresh and an update find them.

A killed run leaves pending creations in the state. Pulumi can only remove such an entry (in 3.260,
`--import-pending-creates` also removes it). The next creation then fails if the killed run had already created the
object. Other objects are not in the state because it was damaged or lost; a preview shows what the Pulumi program would
register for them. All other resources of our program take over existing objects by themselves.

A killed replacement leaves the resource of the old object, with a mark. The old object is deleted. The new one, with
the same URN and name, may or may not exist.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from infra import agreed
from infra.objects.kinds import title
from infra.objects.labels import is_copied, owner_of
from toolchain.operating import state

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""The text that Pulumi writes for a value that a preview cannot know (sdk/v3/go/common/resource/plugin/rpc.go)."""

SECRET = {state.SIGNATURE: "1b47061264138c4ac30d75fd1eb44270"}
"""Marks a secret in a deployment (sdk/v3/go/common/resource/sig); the import encrypts `plaintext`."""


Manifest = Mapping[str, Any]


def adopt_pending(deployment: dict[str, Any], live: Callable[[Manifest], Manifest | None]) -> list[str]:
    """Turn pending creations of Kubernetes objects in an exported deployment into resources; returns their URNs.

    `live` looks up an object by its manifest. If the object is missing or has another mark, the killed run did not
    create it.
    """
    adopted: list[str] = []
    creating = (
        each["resource"]
        for each in deployment.get("pending_operations") or []
        if each["type"] == "creating" and each["resource"]["type"].startswith(agreed.OBJECT)
    )
    for resource in (*creating, *state.half_replaced(deployment)):
        inputs = resource.get("inputs") or {}
        if resource["urn"] in adopted or not object_id(inputs):
            continue
        found = live(inputs)
        is_ours = found and owner_of(found) == owner_of(inputs) and not is_copied(found)
        if found and is_ours and _add(deployment, resource, inputs, found):
            adopted.append(resource["urn"])
    deployment["pending_operations"] = []
    return adopted


def adopt_lost(
    deployment: dict[str, Any], steps: Iterable[Mapping[str, Any]], lost: Iterable[Manifest]
) -> list[str]:
    """Add the objects `lost` and their components: the cluster has these objects, and a preview would create them.

    `steps` are those of `pulumi preview --json`. Returns the URNs of the objects.
    """
    # A job's resource has the name of the job, without its namespace.
    by_title = {name: each for each in lost for name in (title(each), _short_title(each))}
    adopted = []
    for step in steps:
        if step["op"] != "create":
            continue
        resource = step["newState"]
        if not resource.get("custom"):
            _add(deployment, resource)
        elif resource["type"].startswith(agreed.OBJECT):
            inputs = resource.get("inputs") or {}
            known_as = title(inputs) if object_id(inputs) else ""
            found = by_title.get(known_as) or by_title.get(resource["urn"].rpartition("::")[2])
            if found and _add(deployment, resource, _identified(inputs, found), found):
                adopted.append(resource["urn"])
    return adopted


def _add(
    deployment: dict[str, Any],
    resource: Mapping[str, Any],
    inputs: Manifest | None = None,
    live: Manifest | None = None,
) -> bool:
    resources: list[dict[str, Any]] = deployment.setdefault("resources", [])
    replaced = [each for each in state.half_replaced(deployment) if each["urn"] == resource["urn"]]
    place = resources.index(replaced[0]) if replaced else len(resources)
    # In a state, a resource may depend only on resources before it.
    urns = {each["urn"] for each in resources[:place]}
    # If the parent is not in the state, its creation was pending, too, and the parent does not exist.
    if resource["urn"] in urns or resource.get("parent") not in urns:
        return False
    identity: dict[str, Any] = {}
    if inputs is not None and live is not None:
        # Without a uid, the object would count as sent to the cluster, but never read back.
        seen = {**inputs, "metadata": {**inputs["metadata"], "uid": live["metadata"].get("uid")}}
        # With another manager's name, the first update would conflict with the fields that the lost state applied.
        manager = {"__fieldManager": found} if (found := field_manager(live)) else {}
        identity = {"id": object_id(inputs), "inputs": inputs, "outputs": {**seen, **manager}}
    dependencies = [urn for urn in resource.get("dependencies") or [] if urn in urns]
    properties = {
        key: [urn for urn in named or [] if urn in urns]
        for key, named in (resource.get("propertyDependencies") or {}).items()
    }
    added = {**resource, **identity, "dependencies": dependencies, "propertyDependencies": properties}
    added.pop(state.HALF_REPLACED, None)
    resources[place : place + len(replaced)] = [added]
    return True


def field_manager(live: Manifest) -> str:
    """The manager name of Pulumi's latest apply of the live object; empty if Pulumi never applied it."""
    applied = [
        each
        for each in live["metadata"].get("managedFields") or []
        if each.get("operation") == "Apply" and str(each.get("manager")).startswith("pulumi-kubernetes")
    ]
    return str(max(applied, key=lambda each: str(each.get("time")))["manager"]) if applied else ""


def _identified(wanted: Manifest, live: Manifest) -> dict[str, Any]:
    """The known part of `wanted`, with the name and namespace of the live object."""
    filled = fill_unknown(wanted, live)
    place = {key: live["metadata"][key] for key in ("name", "namespace") if live["metadata"].get(key)}
    return {**filled, "metadata": {**(filled.get("metadata") or {}), **place}}


def fill_unknown(wanted: Any, live: Any) -> Any:
    """`wanted`, with a preview's unknown values taken from the live object, or left out if the live object lacks them.

    A value that the preview masks stays a secret.
    """
    if not isinstance(wanted, Mapping):
        return wanted
    filled: dict[str, Any] = {}
    for key, value in wanted.items():
        there = live.get(key) if isinstance(live, Mapping) else None
        if value == state.SECRET:
            filled |= {} if there is None else {key: {**SECRET, "plaintext": json.dumps(there)}}
        elif value != UNKNOWN:
            filled[key] = fill_unknown(value, there)
        elif there is not None:
            filled[key] = _own_metadata(there) if key == "metadata" else there
    return filled


def _own_metadata(live: Mapping[str, Any]) -> dict[str, Any]:
    return {key: live[key] for key in ("name", "namespace", "labels", "annotations") if key in live}


def _short_title(manifest: Manifest) -> str:
    return f"{manifest['kind']}/{manifest['metadata']['name']}"


def object_id(inputs: Manifest) -> str | None:
    """The id that the kubernetes plugin gives: `namespace/name`, or `name` for an object without namespace."""
    metadata = inputs.get("metadata")
    if not isinstance(metadata, Mapping):
        return None  # no metadata yet, or unknown to a preview
    namespace, name = metadata.get("namespace"), metadata.get("name")
    if not isinstance(name, str) or name == UNKNOWN:
        return None
    return f"{namespace}/{name}" if isinstance(namespace, str) else name

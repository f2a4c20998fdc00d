"""Field managers: the owners of an object's fields, by its metadata.managedFields."""

from __future__ import annotations

import copy

from pulumi_standins.kubernetes.api_client import ApiClient
from pulumi_standins.kubernetes.objects import assign, kind_of, name_of, namespace_of, nested, remove
from pulumi_standins.kubernetes.propertypath import parse
from pulumi_standins.kubernetes.races import write_to_latest
from pulumi_standins.kubernetes.values import Object

# Earlier owners whose fields an update takes over: kubectl apply, plain creates of the real plugin and of ours.
# Matched by the start of the name, as in the real plugin.
_PREDECESSORS = (
    ("kubectl", "Apply"),
    ("kubectl", "Update"),
    ("before-first-apply", "Update"),
    ("pulumi-kubernetes", "Update"),
    ("pulumi-resource-kubernetes", "Update"),
)
_OWN_UPDATES = ("pulumi-resource-kubernetes", "pulumi-kubernetes", "pulumi-kubernetes.exe")


def managed_fields(obj: Object) -> list[Object]:
    """The entries of metadata.managedFields."""
    return nested(obj, "metadata", "managedFields", default=[]) or []


def was_created_by_us(live: Object) -> bool:
    """Whether fields still belong to a plain create, by this plugin or by the real one."""
    return any(
        entry.get("operation") == "Update" and entry.get("manager") in _OWN_UPDATES
        for entry in managed_fields(live)
    )


def take_over(client: ApiClient, live: Object, manager: str) -> Object:
    """Give earlier managers' fields to ours, so that removing a field in the program deletes it; returns the object.

    Raises:
        ApiError: the server refused.
    """

    def take(latest: Object) -> Object:
        entries = _taken_over(managed_fields(latest), manager)
        return latest if entries is None else _write(client, latest, entries)

    return write_to_latest(client, live, take)


def _taken_over(entries: list[Object], manager: str) -> list[Object] | None:
    """The entries, with predecessors' entries merged into the manager's; None without predecessors."""
    ours = next(
        (copy.deepcopy(e) for e in entries if e.get("manager") == manager and e.get("operation") == "Apply"),
        None,
    )
    kept: list[Object] = []
    is_changed = False
    for entry in entries:
        if entry.get("manager") == manager and entry.get("operation") == "Apply":
            continue
        if not _is_predecessor(entry):
            kept.append(entry)
            continue
        is_changed = True
        if ours is None:
            ours = {**copy.deepcopy(entry), "manager": manager, "operation": "Apply"}
        else:
            ours["fieldsV1"] = _union(ours.get("fieldsV1") or {}, entry.get("fieldsV1") or {})
    return [*kept, ours] if is_changed and ours is not None else None


def relinquish(client: ApiClient, live: Object, manager: str) -> None:
    """Give up all fields of a manager; fields without another owner are deleted."""
    bare = {
        "apiVersion": live["apiVersion"],
        "kind": live["kind"],
        "metadata": {key: value for key, value in live["metadata"].items() if key in ("name", "namespace")},
    }
    # Applying nothing to a deleted object would create it.
    client.get(kind_of(live), namespace_of(live), name_of(live))
    client.apply(bare, manager=manager, force=False)


def _is_predecessor(entry: Object) -> bool:
    if entry.get("subresource"):
        return False
    manager, operation = str(entry.get("manager", "")), entry.get("operation")
    return any(operation == wanted and manager.startswith(name) for name, wanted in _PREDECESSORS)


def _union(left: Object, right: Object) -> Object:
    merged = dict(left)
    for key, value in right.items():
        merged[key] = _union(merged[key], value) if key in merged else copy.deepcopy(value)
    return merged


def _write(client: ApiClient, live: Object, entries: list[Object]) -> Object:
    version = nested(live, "metadata", "resourceVersion")
    return client.json_patch(
        live,
        [
            {"op": "test", "path": "/metadata/resourceVersion", "value": version},
            {"op": "replace", "path": "/metadata/managedFields", "value": entries},
        ],
    )


def ignorable(ignored: list[str]) -> list[list[str]]:
    """The paths, as steps from map to map; paths into lists or with wildcards are left out."""
    paths = [parse(text) for text in ignored]
    return [
        [str(step) for step in path]
        for path in paths
        if all(isinstance(step, str) and step != "*" for step in path)
    ]


def keep_ignored(inputs: Object, live: Object, manager: str, ignored: list[str]) -> None:
    """Change inputs so that applying them does not change ignored fields.

    Fields of other managers are removed from the inputs; our own fields get their live value.

    Parameters:
        ignored: property paths, as in `ignoreChanges`; paths into lists have no effect.
    """
    ours: list[Object] = []
    theirs: list[Object] = []
    for entry in managed_fields(live):
        (ours if entry.get("manager") == manager else theirs).append(entry.get("fieldsV1") or {})
    for steps in ignorable(ignored):
        if any(_owns(f, steps) for f in theirs) and not any(_owns(f, steps) for f in ours):
            remove(inputs, *steps)
            continue
        value = nested(live, *steps, default=live)
        if value is not live:
            assign(inputs, copy.deepcopy(value), *steps)


def _owns(fields: Object, steps: list[str]) -> bool:
    for step in steps:
        if f"f:{step}" not in fields:
            return False
        fields = fields[f"f:{step}"]
    return True

"""JSON schemas for kubeconform, one file for each kind: from an API server's OpenAPI document, and from a CRD.

A key that a schema does not name is an error, unless the schema lets any key stand.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from infra.objects.manifest import Manifest

Schema = dict[str, Any]

# How kubeconform finds the schema of an object.
LOCATION = "{{.ResourceKind}}_{{.Group}}_{{.ResourceAPIVersion}}.json"
PREFIX = "#/definitions/"
ANY_NUMBER_OR_TEXT = {"type": ["string", "integer", "null"]}


def write(folder: Path, schemas: Mapping[str, Schema]) -> str:
    """Write file's name -> schema into `folder`; what kubeconform takes as `-schema-location`."""
    for name, schema in schemas.items():
        (folder / name).write_text(json.dumps(schema))
    return f"{folder}/{LOCATION}"


def of_server(document: Schema, is_wanted: Callable[[str], bool] = lambda _: True) -> dict[str, Schema]:
    """File's name -> schema, for each kind of the OpenAPI v2 `document` of an API server.

    Parameters:
        is_wanted: whether the schema of that file is asked for.
    """
    definitions = {name: closed(each) for name, each in document["definitions"].items()}
    found = {
        _file(kind["kind"], kind["group"], kind["version"]): name
        for name, each in document["definitions"].items()
        for kind in each.get("x-kubernetes-group-version-kind", [])
    }
    return {file: _with_definitions(name, definitions) for file, name in found.items() if is_wanted(file)}


def of_crd(crd: Schema) -> dict[str, Schema]:
    """File's name -> schema, for each version of a CustomResourceDefinition. The API server adds the `metadata`."""
    spec = crd["spec"]
    return {
        _file(spec["names"]["kind"], spec["group"], version["name"]): closed(
            version["schema"]["openAPIV3Schema"]
        )
        for version in spec["versions"]
    }


def file_of(manifest: Manifest) -> str:
    """The file in which kubeconform looks for the schema of `manifest`."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    return _file(manifest["kind"], group, version)


def closed(schema: Schema) -> Schema:
    """`schema`, and all below it, such that no other keys may stand; what may be absent may be null."""
    if schema.get("format") == "int-or-string" or schema.get("x-kubernetes-int-or-string"):
        return ANY_NUMBER_OR_TEXT
    found = dict(schema)
    properties = schema.get("properties", {})
    if properties:
        found["properties"] = {name: closed(each) for name, each in properties.items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            found.setdefault("additionalProperties", False)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            found[key] = closed(schema[key])
    if "type" in schema:
        found["type"] = [schema["type"], "null"]
    return found


def _with_definitions(name: str, definitions: Mapping[str, Schema]) -> Schema:
    return {
        **definitions[name],
        "definitions": {each: definitions[each] for each in _reached(name, definitions)},
    }


def _reached(name: str, definitions: Mapping[str, Schema]) -> set[str]:
    """The definitions that this one refers to, and those that they refer to."""
    found: set[str] = set()
    left = [name]
    while left:
        fresh = set(_references(definitions[left.pop()])) - found
        found |= fresh
        left += fresh
    return found


def _references(schema: Any) -> Iterator[str]:
    below: Iterable[Any] = (
        schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    )
    if isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
        yield schema["$ref"].removeprefix(PREFIX)
    for each in below:
        yield from _references(each)


def _file(kind: str, group: str, version: str) -> str:
    """kubeconform takes what stands before a slash in `apiVersion` for the group, and all of it without a slash."""
    return f"{kind.lower()}_{group or version}_{version}.json"

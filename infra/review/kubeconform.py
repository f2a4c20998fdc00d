"""Checks the rendered objects against the schemas of the API server and of the controllers' CRDs.

kubeconform reads JSON schemas, one file for each kind, from the API server's OpenAPI document and from a CRD. A key
that a schema does not name is an error, unless the schema allows any key.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from infra import agreed, process
from infra.objects.manifest import Manifest
from infra.review.text import objects_in
from infra.training_operator.patches import CRD_KIND
from infra.upstream import vendored

Schema = dict[str, Any]

# How kubeconform finds the schema of an object.
LOCATION = "{{.ResourceKind}}_{{.Group}}_{{.ResourceAPIVersion}}.json"
REFERENCE = re.compile(r'"\$ref": "#/definitions/([^"]+)"')
ANY_NUMBER_OR_TEXT = {"type": ["string", "integer", "null"]}


class NotCheckedError(RuntimeError):
    """The check cannot run; the text says what is missing."""


def mismatches(files: Mapping[str, str]) -> list[str]:
    """One sentence for each object of `files` (path -> contents) that breaks its schema. Needs no network.

    Raises NotCheckedError.
    """
    document = Path(process.variables().get(agreed.OPENAPI, os.devnull))
    where = process.variables().get("PATH")
    if not document.is_file() or shutil.which("kubeconform", path=where) is None:
        raise NotCheckedError(
            "kubeconform or the API server's schemas are missing; `make review` installs both if Go is installed"
        )
    found = [each for content in files.values() for each in objects_in(content)]
    wanted = {schema_file_of(each) for each in found}
    of_server = schemas_of_server(json.loads(document.read_text()), wanted.__contains__)
    known = of_server | _of_controllers()  # a server that has these kinds tells less of them
    with tempfile.TemporaryDirectory(prefix="trainstack-review-") as place:
        of_schemas, of_objects = Path(place) / "schemas", Path(place) / "objects"
        for each in (of_schemas, of_objects):
            each.mkdir()
        return _told(write_schemas(of_schemas, known), of_objects, files)


def _of_controllers() -> dict[str, Schema]:
    """File's name -> schema, of the kinds that the vendored projects define."""
    objects = [each for project in vendored.projects() for each in vendored.objects(project)]
    crds = [schemas_of_crd(each) for each in objects if each["kind"] == CRD_KIND]
    return {file: schema for each in crds for file, schema in each.items()}


def _told(location: str, place: Path, files: Mapping[str, str]) -> list[str]:
    for name, content in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(content)
    command = ["kubeconform", "-strict", "-output", "json", "-schema-location", location, str(place)]
    done = subprocess.run(command, env=process.variables(), capture_output=True, text=True)
    if not done.stdout:
        raise NotCheckedError(f"kubeconform failed: {done.stderr.strip()}")
    told = json.loads(done.stdout).get("resources") or []
    wrong = (each for each in told if each["status"] != "statusValid")
    return [
        f"{os.path.relpath(each['filename'], place)}: {each['kind']} {each['name']}: {each['msg']}"
        for each in wrong
    ]


def write_schemas(folder: Path, schemas: Mapping[str, Schema]) -> str:
    """Write file's name -> schema into `folder`. Returns the value for kubeconform's `-schema-location`."""
    for name, schema in schemas.items():
        (folder / name).write_text(json.dumps(schema))
    return f"{folder}/{LOCATION}"


def schemas_of_server(
    document: Schema, is_wanted: Callable[[str], bool] = lambda _: True
) -> dict[str, Schema]:
    """File's name -> schema, for each kind of the OpenAPI v2 `document` of an API server.

    Parameters:
        is_wanted: whether the schema of that file is needed.
    """
    definitions = {name: closed(each) for name, each in document["definitions"].items()}
    found = {
        _schema_file(kind["kind"], kind["group"], kind["version"]): name
        for name, each in document["definitions"].items()
        for kind in each.get("x-kubernetes-group-version-kind", [])
    }
    return {file: _with_definitions(name, definitions) for file, name in found.items() if is_wanted(file)}


def schemas_of_crd(crd: Schema) -> dict[str, Schema]:
    """File's name -> schema, for each version of a CustomResourceDefinition.

    A CRD does not describe the fields of `metadata`: the API server adds their schema.
    """
    spec = crd["spec"]
    return {
        _schema_file(spec["names"]["kind"], spec["group"], version["name"]): closed(
            version["schema"]["openAPIV3Schema"]
        )
        for version in spec["versions"]
    }


def schema_file_of(manifest: Manifest) -> str:
    """The file in which kubeconform looks for the schema of `manifest`."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    return _schema_file(manifest["kind"], group, version)


def closed(schema: Schema) -> Schema:
    """`schema` in which all parts refuse unknown keys, and take null."""
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
    """The definitions to which the definition `name` refers, directly or through others."""
    found: set[str] = set()
    left = [name]
    while left:
        fresh = {*REFERENCE.findall(json.dumps(definitions[left.pop()]))} - found
        found |= fresh
        left += fresh
    return found


def _schema_file(kind: str, group: str, version: str) -> str:
    """The schema's file name. If an `apiVersion` has no group (`v1`), kubeconform uses the version as the group."""
    return f"{kind.lower()}_{group or version}_{version}.json"

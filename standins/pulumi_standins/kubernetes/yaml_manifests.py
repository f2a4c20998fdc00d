"""Manifests: decode them, find them in files and kustomizations, and give their objects a namespace."""

from __future__ import annotations

import glob
import subprocess
import urllib.request
from typing import Any

from pulumi_standins.kubernetes import manifest_yaml
from pulumi_standins.kubernetes.api_client import ApiClient
from pulumi_standins.kubernetes.objects import assign, namespace_of
from pulumi_standins.kubernetes.scopes import Scopes
from pulumi_standins.kubernetes.values import Object


def required(arguments: Object, name: str) -> str:
    """A text argument; raises ValueError when it is missing."""
    value = arguments.get(name)
    if not isinstance(value, str):
        raise ValueError(f"missing required field '{name}' of type string")
    return value


def decode(text: str) -> list[Object]:
    """All objects of a manifest; empty documents are skipped.

    Raises:
        ValueError: it is no YAML, or something in it is no object; without what it says, which may be secret.
    """
    found = []
    for number, document in enumerate(manifest_yaml.documents(text), 1):
        if not document:
            continue
        if not isinstance(document, dict):
            found_type = type(document).__name__
            raise ValueError(f"a manifest consists of objects: document {number} is a {found_type}")
        found.append(document)
    return found


def is_list(obj: Object) -> bool:
    """Whether a manifest's object stands for the items in it."""
    return str(obj.get("kind", "")).endswith("List") and isinstance(obj.get("items"), list)


def in_namespace(
    found: list[Object], namespace: str, scope: Scopes, client: ApiClient | None
) -> list[Object]:
    """Put namespaced objects that name none into a namespace, in place."""
    for obj in found:
        scope.remember(obj)
    for obj in found:
        if namespace and not namespace_of(obj) and scope.is_namespaced(obj, client):
            assign(obj, namespace, "metadata", "namespace")
    return found


def read(files: list[str]) -> list[Object]:
    """The objects of files, glob patterns and URLs.

    Raises:
        OSError: a file cannot be read.
        ValueError: a file is no manifest.
    """
    found = []
    for name in files:
        if "://" in name:
            with urllib.request.urlopen(name, timeout=60) as answer:
                found += decode(answer.read().decode())
            continue
        is_pattern = any(character in name for character in "*?[")
        for path in sorted(glob.glob(name)) if is_pattern else [name]:
            with open(path) as file:
                found += decode(file.read())
    return found


def kustomize(directory: str) -> list[Object]:
    """The objects of a kustomization, by the kubectl on PATH.

    Raises:
        ValueError: the kustomization is broken, or there is no kubectl.
    """
    try:
        built = subprocess.run(
            ["kubectl", "kustomize", "--load-restrictor=LoadRestrictionsNone", directory],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise ValueError("kustomize needs kubectl on PATH") from error
    if built.returncode:
        raise ValueError(f"kustomize failed for directory {directory!r}: {built.stderr.strip()}")
    return decode(built.stdout)


def listed(arguments: Object, name: str) -> list[Any]:
    """An argument that may be one value, several or missing."""
    value = arguments.get(name)
    if value is None:
        return []
    return value if isinstance(value, list) else [value]

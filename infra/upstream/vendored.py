"""Reads the manifests that lie beside this file; README.md says where they come from."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import yaml

from infra.objects.labels import VERSION
from infra.objects.manifest import Manifest

FOLDER = Path(__file__).parent
DEFINITIONS = "crds"
REST = "manifests.yaml"
VERSIONED = ("CustomResourceDefinition", "Deployment")
# A definition may be 900 kB; libyaml reads it ten times as fast where PyYAML was built with it.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def projects() -> list[str]:
    """The projects whose manifests are here."""
    return sorted(each.name.rpartition("-")[0] for each in FOLDER.glob("*-[0-9]*"))


def folder(project: str) -> Path:
    """The folder of a project's manifests, whose name ends in their version."""
    (found,) = FOLDER.glob(f"{project}-[0-9]*")
    return found


def version(project: str) -> str:
    """The version of a project's manifests, as its tags spell it: `v1.9.3`."""
    return f"v{folder(project).name.removeprefix(f'{project}-')}"


@functools.cache
def objects(project: str) -> list[Manifest]:
    """A project's objects, definitions first. They are read once, so a caller copies an object before changing it.

    Definitions and Deployments have the version as a label: by it, `infra.decision` knows which version is newer.
    """
    place = folder(project)
    files = [*sorted((place / DEFINITIONS).iterdir()), place / REST]
    found = [each for file in files for each in yaml.load_all(file.read_text(), _Loader)]
    for each in found:
        if each["kind"] in VERSIONED:
            each["metadata"].setdefault("labels", {})[VERSION] = version(project)
    return found

"""What a review renders of a stack, and what its cluster holds: compared object by object."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infra import operators, stack_plan
from infra.config import from_file
from infra.review import folder
from infra.review.text import objects_in
from infra.training_operator.patches import CRD_KIND
from tests.e2e.project import Project

Manifest = dict[str, Any]
Title = tuple[str, str, str]
"""Kind, namespace and name of an object."""
CLUSTER_WIDE = ""


def title(manifest: Manifest) -> Title:
    metadata = manifest["metadata"]
    return manifest["kind"], metadata.get("namespace", CLUSTER_WIDE), metadata["name"]


def rendered(project: Project, into: Path) -> dict[Title, Manifest]:
    """What a review of this machine renders of the project's stack, into the folder `into`, with upstream's CRDs."""
    project.run("python", "-m", "infra.review", project.stack, "--here", "--into", str(into))
    files = [path for path in (into / folder.RENDERED).rglob("*.yaml") if folder.has_objects(path.name)]
    stack = from_file(project.root / "stacks" / f"Pulumi.{project.stack}.yaml")
    operator = operators.manifests(stack, stack_plan.reviewed(stack))
    definitions = [each for each in operator if each["kind"] == CRD_KIND]
    found = [each for path in files for each in objects_in(path.read_text())]
    return {title(each): each for each in (*definitions, *found)}


def registered(project: Project) -> set[Title]:
    """The objects that Pulumi keeps in the stack's state."""
    exported = json.loads(project.run("pulumi", "stack", "export", "--stack", project.stack).stdout)
    resources = exported["deployment"]["resources"]
    return {title(each["inputs"]) for each in resources if each["type"].startswith("kubernetes:")}


def contradictions(project: Project, wanted: dict[Title, Manifest]) -> dict[Title, list[str]]:
    """Where the cluster's objects lack or contradict something in `wanted`; empty where they do not."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"apiVersion": "v1", "kind": "List", "items": [*wanted.values()]}, file)
        file.flush()
        asked = ("kubectl", "get", "--filename", file.name, "--output", "json")
        found = {title(each): each for each in json.loads(project.run(*asked).stdout)["items"]}
    different = {key: list(differences(each, found[key])) for key, each in wanted.items()}
    return {key: lines for key, lines in different.items() if lines}


def ensure_applied(project: Project, into: Path) -> None:
    """The cluster and the state hold exactly what a review renders; an AssertionError otherwise."""
    wanted = rendered(project, into)
    assert wanted.keys() == registered(project)
    assert contradictions(project, wanted) == {}


def differences(wanted: Any, found: Any, place: str = "") -> Iterator[str]:
    """Where `found` lacks or contradicts something in `wanted`; what it has beyond that are the server's defaults."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key, value in wanted.items():
            yield from differences(value, found.get(key), f"{place}.{key}")
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for number, pair in enumerate(zip(wanted, found, strict=True)):
            yield from differences(*pair, f"{place}[{number}]")
    elif wanted != found and not an_image(place, wanted):
        yield f"{place}: rendered {wanted!r}, in the cluster {found!r}"


def an_image(place: str, wanted: Any) -> bool:
    """A reference gets its digest, and a mirror its address, when the image is pushed."""
    return place.endswith("].image") or str(wanted).startswith("--pytorch-init-container-image=")

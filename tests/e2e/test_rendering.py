"""What a cluster holds after `make up` is what a review renders."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.e2e.project import Project

Manifest = dict[str, Any]
CLUSTER_WIDE = ""


def title(manifest: Manifest) -> tuple[str, str, str]:
    metadata = manifest["metadata"]
    return manifest["kind"], metadata.get("namespace", CLUSTER_WIDE), metadata["name"]


@pytest.fixture(scope="module")
def rendered(
    project: Project, up: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str, str], Manifest]:
    """What a review of this machine renders; `up` has applied the same stack."""
    into = tmp_path_factory.mktemp("rendered")
    project.run("python", "-m", "infra.review", project.stack, "--here", "--into", str(into))
    folders = (into / "rendered").rglob("*/*.yaml")  # beside them stands a kustomization
    found = [yaml.safe_load(path.read_text()) for path in folders]
    return {title(each): each for each in found}


def registered(project: Project) -> set[tuple[str, str, str]]:
    """The objects that Pulumi keeps in the stack's state."""
    exported = json.loads(project.run("pulumi", "stack", "export", "--stack", project.stack).stdout)
    resources = exported["deployment"]["resources"]
    return {title(each["inputs"]) for each in resources if each["type"].startswith("kubernetes:")}


def test_the_state_names_no_path_of_the_clone(project: Project, up: dict[str, str]) -> None:
    exported = project.run("pulumi", "stack", "export", "--stack", project.stack).stdout
    assert str(project.root) not in exported
    assert up["model"] == str(project.models / "mnist_cnn.pt")


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


def test_every_object_is_registered_and_no_other(project: Project, rendered: dict[Any, Manifest]) -> None:
    assert rendered.keys() == registered(project)


def test_every_object_in_the_cluster_is_as_rendered(project: Project, rendered: dict[Any, Manifest]) -> None:
    found = {
        (kind, namespace, name): project.get(kind.lower(), name, namespace or "kubeflow")
        for kind, namespace, name in rendered
    }
    different = {key: list(differences(wanted, found[key])) for key, wanted in rendered.items()}
    assert {key: lines for key, lines in different.items() if lines} == {}


def test_the_runs_folder_has_the_rendered_id(project: Project, rendered: dict[Any, Manifest]) -> None:
    job = rendered["PyTorchJob", "kubeflow", "pytorch-simple"]
    run = job["metadata"]["labels"]["trainstack/run"]
    assert (project.models / "runs" / run / "mnist_cnn.pt").is_file()


@pytest.mark.parametrize(
    ("wanted", "found", "said"),
    [
        ({"a": 1}, {"a": 1, "default": 2}, []),
        ({"a": {"b": 1}}, {"a": {}}, [".a.b: rendered 1, in the cluster None"]),
        ({"a": [1, 2]}, {"a": [1]}, [".a: rendered [1, 2], in the cluster [1]"]),
        ({"a": [{"image": "x:tag"}]}, {"a": [{"image": "x@sha256:1"}]}, []),
        ({"image": "x"}, {"image": "y"}, [".image: rendered 'x', in the cluster 'y'"]),
    ],
)
def test_a_difference_is_seen(wanted: Manifest, found: Manifest, said: list[str]) -> None:
    assert list(differences(wanted, found)) == said

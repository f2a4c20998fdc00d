"""What a cluster holds after `make up` is what a review renders."""

from __future__ import annotations

import pytest

from tests.e2e import rendering
from tests.e2e.project import Project
from tests.e2e.rendering import Manifest, Title, contradictions, differences, registered


@pytest.fixture(scope="module")
def rendered(
    project: Project, up: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> dict[Title, Manifest]:
    """What a review of this machine renders; `up` has applied the same stack."""
    return rendering.rendered(project, tmp_path_factory.mktemp("rendered"))


def test_the_state_names_no_path_of_the_clone(project: Project, up: dict[str, str]) -> None:
    exported = project.run("pulumi", "stack", "export", "--stack", project.stack).stdout
    assert str(project.root) not in exported
    assert up["model"] == str(project.models / "mnist_cnn.pt")


def test_every_object_is_registered_and_no_other(project: Project, rendered: dict[Title, Manifest]) -> None:
    assert rendered.keys() == registered(project)


def test_every_object_in_the_cluster_is_as_rendered(
    project: Project, rendered: dict[Title, Manifest]
) -> None:
    assert contradictions(project, rendered) == {}


def test_the_runs_folder_has_the_rendered_id(project: Project, rendered: dict[Title, Manifest]) -> None:
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

"""A cluster that somebody has deleted: `make up` makes another one, and loses nothing."""

from __future__ import annotations

from tests.e2e.project import Project

ACCURACY_FLOOR = 0.95


def test_a_cluster_deleted_by_hand_is_repaired(project: Project, up: dict[str, str]) -> None:
    before = (project.models / "mnist_cnn.pt").read_bytes()
    runs = set((project.models / "runs").iterdir())
    project.run("kind", "delete", "cluster", "--name", project.cluster)
    assert (project.models / "mnist_cnn.pt").read_bytes() == before, "the model outlives its cluster"

    repaired = project.up()

    assert float(repaired["accuracy"]) >= ACCURACY_FLOOR
    assert runs <= set((project.models / "runs").iterdir()), "results of the old run stay"
    assert project.changed_files() == ""

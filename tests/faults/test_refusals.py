"""What is not ours is left alone, and what is taken is named."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from tests.e2e.clones import KIND_LABEL, PROJECT_LABEL
from tests.e2e.project import Project


@pytest.fixture
def foreign_cluster(project: Project) -> Iterator[str]:
    """A container that says it is the node of a kind cluster of our name."""
    image = os.environ.get("TRAINSTACK_INIT_IMAGE", "busybox:1.37")
    started = project.run(
        *("docker", "run", "--detach", "--name", f"{project.cluster}-control-plane"),
        *("--label", f"{KIND_LABEL}={project.cluster}"),
        *(
            "--label",
            f"{PROJECT_LABEL}={project.root.parent}",
        ),  # for the next session, were this one interrupted
        *("--entrypoint", "sleep", image, "3600"),
        check=False,
    )
    assert started.returncode == 0, started.stderr
    container = started.stdout.strip()
    try:
        yield container
    finally:
        project.run("docker", "rm", "--force", container)


def test_a_cluster_that_we_did_not_make_is_refused_and_left_alone(
    project: Project, foreign_cluster: str
) -> None:
    done = project.make("up")

    assert done.returncode != 0
    assert project.cluster in done.stdout
    assert "did not create" in done.stdout
    assert "pulumi up" not in done.stdout, "it is refused before anything is built"
    running = project.run("docker", "inspect", "--format", "{{.State.Running}}", foreign_cluster)
    assert running.stdout.strip() == "true"

    down = project.make("down")
    running = project.run("docker", "inspect", "--format", "{{.State.Running}}", foreign_cluster)
    assert running.stdout.strip() == "true", down.stdout


def test_a_busy_port_is_named_with_the_key_that_asks_for_it(project: Project) -> None:
    committed = project.stack_file.read_text()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        project.configure({"trainstack:cluster": {"apiServerPort": port}})
        done = project.make("up")
    project.stack_file.write_text(committed)

    assert done.returncode != 0
    assert f"apiServerPort = {port}" in done.stdout

"""`make fetch` where images are pulled: the engine has the registry's image before the network is cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra import prefetch
from infra.clusters.kind.component import REGISTRY_IMAGE
from infra.process import CommandError
from tests.unit.infra import samples

EXISTING = {
    "operator": {"install": "never"},
    "cluster": {"kind": "existing"},
    "image": {"repository": "registry.example/trainer"},
}


class Machine:
    """Programs that note how they are called, and a network that can be cut."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # The engine has what it has pulled.
        self.program(
            "docker",
            f"case $1 in pull) touch {folder}/pulled;; *) test -e {folder}/pulled || exit 1; echo sha256:1;; esac",
        )

    def program(self, name: str, script: str) -> None:
        path = self.folder / name
        path.write_text(
            f'#!/bin/sh\necho "{name} $*" >>{self.folder}/calls\ntest ! -e {self.folder}/cut || exit 1\n{script}\n'
        )
        path.chmod(0o755)

    def calls(self, word: str) -> list[str]:
        calls = self.folder / "calls"
        return [line for line in calls.read_text().splitlines() if word in line] if calls.exists() else []

    def fetch(self, sections: dict[str, Any] | None = None, **environment: str) -> list[str]:
        said: list[str] = []
        prefetch.fetch(samples.stack(**sections or {}), environment, said.append)
        return said


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return Machine(tmp_path)


def test_the_published_registry_is_pulled_once(machine: Machine) -> None:
    machine.fetch()
    machine.fetch()
    assert machine.calls("docker pull") == [f"docker pull --quiet {REGISTRY_IMAGE}"]


def test_what_set_up_has_made_is_taken(machine: Machine) -> None:
    (machine.folder / "pulled").touch()
    said = machine.fetch(TRAINSTACK_REGISTRY_IMAGE="trainstack/registry:1")
    assert said == ["registry's image: trainstack/registry:1"]
    assert machine.calls("docker pull") == []


def test_a_cluster_that_is_there_has_no_registry_of_ours(machine: Machine) -> None:
    assert machine.fetch(EXISTING) == []
    assert not (machine.folder / "calls").exists()


def test_without_a_network_it_fails_and_says_so(machine: Machine) -> None:
    (machine.folder / "cut").touch()
    with pytest.raises(CommandError):
        machine.fetch()

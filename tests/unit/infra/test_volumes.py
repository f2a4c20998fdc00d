"""Each stack has a folder of its own on a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra import paths, volumes
from infra.config import Stack, from_file
from infra.review import folder
from infra.upstream import vendored
from storage.manifests import persistent_volume
from tests.unit.infra.samples import stack, upstreams

OF_KIND = "/var/lib/trainstack/models"
STACKS = sorted((paths.ROOT / "stacks").glob("Pulumi.*.yaml"))
IMAGE = {"repository": "registry.example/trainer"}


def elsewhere(name: str = "gpu", **sections: Any) -> Stack:
    return stack(name, **{"cluster": {"kind": "existing"}, "image": IMAGE, **sections})


def path_of(known: Stack) -> str:
    (volume,) = [each for each in volumes.own_volumes(known) if each.name == known.volume]
    return str(persistent_volume(volume)["spec"]["hostPath"]["path"])


def test_no_two_committed_stacks_have_one_folder_of_a_shared_cluster() -> None:
    shared = [known for known in map(from_file, STACKS) if known.cluster.kind != "kind"]
    assert len({path_of(known) for known in shared}) == len(shared) > 2


def test_the_folder_goes_by_the_volume_as_its_name_is_unique_in_a_cluster() -> None:
    assert path_of(elsewhere()) == "/var/lib/trainstack/volumes/trainstack-gpu-models"
    assert path_of(elsewhere(storage={"volume": "theirs"})) == "/var/lib/trainstack/volumes/theirs"
    assert path_of(elsewhere(storage={"hostPath": "/var/lib/trainstack/x"})) == "/var/lib/trainstack/x"


def test_a_kind_cluster_is_the_stacks_own() -> None:
    assert path_of(stack()) == OF_KIND


@pytest.mark.parametrize("path", STACKS, ids=lambda path: path.stem)
def test_a_rendering_passes_the_policies(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vendored, "objects", upstreams)
    assert folder.files(from_file(path))

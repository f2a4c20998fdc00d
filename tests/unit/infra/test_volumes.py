"""Each stack has a folder of its own on a cluster."""

from __future__ import annotations

from typing import Any

from infra import paths, volumes
from infra.config import Stack, from_file
from storage.manifests import persistent_volume
from tests.unit.infra.samples import stack

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

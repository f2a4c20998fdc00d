"""Each stack has a folder of its own on a cluster, and one that shares the old one keeps it until its user moves it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pulumi
import pytest

from infra import paths, registered_volumes, volumes
from infra.config import ConfigError, Stack, from_file
from infra.objects import stack_state
from infra.review import folder
from infra.upstream import vendored
from storage.manifests import persistent_volume
from tests.unit.infra.samples import stack, upstreams

OLD = "/var/lib/trainstack/models"
STACKS = sorted((paths.ROOT / "stacks").glob("Pulumi.*.yaml"))
IMAGE = {"repository": "registry.example/trainer"}


def elsewhere(name: str = "gpu", **sections: Any) -> Stack:
    return stack(name, **{"cluster": {"kind": "existing"}, "image": IMAGE, **sections})


def path_of(known: Stack) -> str:
    (volume,) = [each for each in volumes.own_volumes(known) if each.name == known.volume]
    return str(persistent_volume(volume)["spec"]["hostPath"]["path"])


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", said.append)
    return said


def test_no_two_committed_stacks_have_one_folder_of_a_shared_cluster() -> None:
    shared = [known for known in map(from_file, STACKS) if known.cluster.kind != "kind"]
    assert len({path_of(known) for known in shared}) == len(shared) > 2


def test_the_folder_goes_by_the_volume_as_its_name_is_unique_in_a_cluster() -> None:
    assert path_of(elsewhere()) == "/var/lib/trainstack/volumes/trainstack-gpu-models"
    assert path_of(elsewhere(storage={"volume": "theirs"})) == "/var/lib/trainstack/volumes/theirs"
    assert path_of(elsewhere(storage={"hostPath": "/var/lib/trainstack/x"})) == "/var/lib/trainstack/x"


def test_a_kind_cluster_is_the_stacks_own() -> None:
    assert path_of(stack()) == OLD


@pytest.mark.parametrize("path", STACKS, ids=lambda path: path.stem)
def test_a_rendering_passes_the_policies(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vendored, "objects", upstreams)
    assert folder.files(from_file(path))


def test_a_volume_of_an_older_release_stays_where_its_files_are(warnings: list[str]) -> None:
    kept = registered_volumes.in_old_folder(elsewhere(), {OLD})
    assert path_of(kept) == OLD
    (said,) = warnings
    for part in ("overwrite", OLD, "hostPath: /var/lib/trainstack/volumes/trainstack-gpu-models", kept.file):
        assert part in said


@pytest.mark.parametrize("folder", [{}, {"hostPath": OLD}], ids=["state", "file"])
@pytest.mark.parametrize("limits", [{"number": 3}, {"days": 30}, {"number": 3, "days": 30}], ids=str)
def test_no_run_is_removed_from_the_folder_that_stacks_share(
    folder: dict[str, str], limits: dict[str, int], warnings: list[str]
) -> None:
    known = elsewhere(storage={**folder, "keepRuns": limits})
    with pytest.raises(ConfigError) as refused:
        registered_volumes.in_old_folder(known, {OLD})
    own = "/var/lib/trainstack/volumes/trainstack-gpu-models"
    for part in (known.file, "trainstack:storage.keepRuns", OLD, f"hostPath: {own}", "remove keepRuns"):
        assert part in str(refused.value)


@pytest.mark.parametrize(
    ("known", "folders"),
    [
        (elsewhere(), set()),
        (elsewhere(), {"/var/lib/trainstack/volumes/trainstack-gpu-models"}),
        (elsewhere(), {"/srv/elsewhere"}),
        (elsewhere(storage={"hostPath": "/var/lib/trainstack/mine"}), {OLD}),
        (stack(), {OLD}),
        (stack(storage={"keepRuns": {"number": 3}}), {OLD}),
        (elsewhere(storage={"keepRuns": {"number": 3}}), set()),
        (elsewhere(storage={"keepRuns": {"number": 3}, "hostPath": "/var/lib/trainstack/mine"}), {OLD}),
        (elsewhere(storage={"keepRuns": {"number": 3}, "kind": "class", "storageClass": "fast"}), {OLD}),
    ],
)
def test_nothing_is_said_of_any_other(known: Stack, folders: set[str], warnings: list[str]) -> None:
    assert registered_volumes.in_old_folder(known, folders) is known
    assert warnings == []


def test_the_state_tells_the_folders_of_its_volumes() -> None:
    def object_(kind: str, name: str, **spec: Any) -> dict[str, Any]:
        outputs = {"kind": kind, "metadata": {"name": name}, "spec": spec}
        return {"type": f"kubernetes:core/v1:{kind}", "outputs": outputs}

    held = {
        "a": object_("PersistentVolume", "x", hostPath={"path": OLD}),
        "b": object_("PersistentVolume", "y", nfs={"path": "/elsewhere"}),
        "c": object_("PersistentVolumeClaim", "x", volumeName="x"),
    }
    assert stack_state.from_outputs(held).folders == {OLD}

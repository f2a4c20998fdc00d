"""Which nodes are looked at, what is said of those that see another folder, and that nothing is left."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from infra.clusters.node_folders import Placement
from infra.objects.api import ApiAddress
from infra.run.reader_pod import MountedClaim
from infra.shared_folder import probe
from infra.shared_folder.probe import NotSharedError, Probe
from tests.unit.infra.objects.played_api import listed, play
from tests.unit.infra.samples import stopped_clock
from tests.unit.infra.shared_folder.played_nodes import PlayedNodes, ended, node

GPU = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
GONE = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
DISK = {"disk": "shared"}
VOLUME = MountedClaim(ApiAddress("/k", "c"), "kubeflow", "trainer@sha256:0", "models", "/opt/mnist/models")
ANY = [Placement()]


def tolerating(**taint: str) -> Placement:
    return Placement(tolerations=[{**taint, "operator": "Exists"}])


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped_clock(monkeypatch)


def look(core: PlayedNodes, monkeypatch: pytest.MonkeyPatch, placements: list[Placement] = ANY) -> list[str]:
    play(monkeypatch, core)
    try:
        return Probe(VOLUME, placements, lambda _: None).run()
    finally:
        assert core.pods == {}, "no pod is left"


@pytest.mark.parametrize(
    ("folders", "said"),
    [
        ({"b": "own"}, "node b has another folder than node a"),
        ({"a": "own"}, "nodes b, c have another folder than node a"),
        ({"b": "own", "c": "own too"}, "nodes b, c have another folder than node a"),
    ],
)
def test_nodes_that_see_another_are_named(
    folders: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotSharedError, match=f"^{said}$"):
        look(PlayedNodes([node("a"), node("b"), node("c")], folders), monkeypatch)


@pytest.mark.parametrize(
    ("other", "placements", "looked_at"),
    [
        (node("b", GPU), ANY, ["a"]),
        (node("b", GPU), [tolerating(key="nvidia.com/gpu")], ["a", "b"]),
        (node("b", GPU), [*ANY, tolerating()], ["a", "b"]),
        (node("b", GONE), ANY, ["a"]),
        (node("b", unschedulable=True), ANY, ["a"]),
        (node("b", labels=DISK), [Placement(labels=DISK)], ["b"]),
        (node("b", labels=DISK), [*ANY, Placement(labels=DISK)], ["a", "b"]),
    ],
)
def test_only_where_pods_of_a_job_may_come(
    other: Any, placements: list[Placement], looked_at: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    core = PlayedNodes([node("a"), other])
    assert look(core, monkeypatch, placements) == looked_at
    assert len(core.created) == (2 if len(looked_at) > 1 else 0), "one node needs no pod"


PULL = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
WAITING = {"phase": "Pending", "containerStatuses": [{"name": "reader", "state": PULL}]}
FULL = {"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"}


@pytest.mark.parametrize("silent", ["a", "b"])
@pytest.mark.parametrize(
    ("status", "said"),
    [
        (WAITING, "ImagePullBackOff: no such image"),
        ({"phase": "Pending", "conditions": [FULL]}, "0/2 nodes are available"),
        ({"phase": "Pending"}, "its pod is Pending"),
        ({"phase": "Failed", "message": "The node was low on memory."}, "The node was low on memory."),
        (ended("Failed", 2, "sh: cannot create /x: denied"), "cannot create /x: denied"),
        (ended("Failed", 137), "its pod ended with code 137"),
    ],
)
def test_a_node_that_cannot_tell_does_not_block_for_ever(
    status: dict[str, Any], said: str, silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = PlayedNodes([node("a"), node("b")], broken={silent: status})
    with pytest.raises(NotSharedError, match=f"node {silent} gave no answer: .*{said}"):
        look(core, monkeypatch)


def test_pods_that_somebody_deletes_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    core = PlayedNodes([node("a"), node("b")])
    monkeypatch.setattr(core, "live", listed)
    with pytest.raises(NotSharedError, match="node a gave no answer: its pod was deleted"):
        look(core, monkeypatch)


def test_an_answer_that_was_lost_makes_no_second_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    core = PlayedNodes([node("a"), node("b")])
    create = core.create

    def lost(place: str, pod: dict[str, Any]) -> object:
        create(place, pod)
        return 409

    monkeypatch.setattr(core, "create", lost)
    assert look(core, monkeypatch) == ["a", "b"]


def command(pod: Any, folder: Path, seconds: str) -> list[str]:
    """What the pod runs, with the volume at `folder`, and waiting for at most `seconds`."""
    (container,) = pod["spec"]["containers"]
    return [*container["command"][:4], str(folder / "file"), seconds]


def test_what_the_pods_run_finds_one_folder_and_no_other(tmp_path: Path) -> None:
    for name in ("here", "elsewhere"):
        (tmp_path / name).mkdir()
    reads = probe.reader("r", VOLUME, "b", "file")
    write = command(probe.writer("w", VOLUME, "a", "file"), tmp_path / "here", "600")
    with subprocess.Popen(write, start_new_session=True) as writing:
        while not (tmp_path / "here" / "file").exists():
            assert writing.poll() is None
            time.sleep(0.01)
        assert subprocess.run(command(reads, tmp_path / "here", "0")).returncode == probe.SEEN
        assert subprocess.run(command(reads, tmp_path / "elsewhere", "0")).returncode == probe.NOT_SEEN
        writing.terminate()
        assert writing.wait() == 0
    assert list((tmp_path / "here").iterdir()) == [], "the file goes with its pod"


def test_a_folder_that_cannot_be_written_ends_the_writer(tmp_path: Path) -> None:
    write = command(probe.writer("w", VOLUME, "a", "file"), tmp_path / "missing", "600")
    done = subprocess.run(write, capture_output=True, text=True)
    assert done.returncode != 0
    assert "file" in done.stderr


def test_the_pods_have_no_more_rights_than_that_takes() -> None:
    writer, reader = probe.writer("w", VOLUME, "a", "f"), probe.reader("r", VOLUME, "b", "f")
    assert writer["spec"]["volumes"][0]["persistentVolumeClaim"]["readOnly"] is False
    assert reader["spec"]["volumes"][0]["persistentVolumeClaim"]["readOnly"] is True
    for pod in (writer, reader):
        (container,) = pod["spec"]["containers"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert pod["spec"]["automountServiceAccountToken"] is False
        assert pod["spec"]["activeDeadlineSeconds"] > probe.SEEN_S

"""MicroK8s against stand-in executables that follow its documents; a real one cannot be had on our machines."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from infra import docker, paths
from infra.agreed import ProgramError
from infra.clusters import selection
from infra.clusters.kind import ownership
from infra.clusters.microk8s import commands, installation
from infra.clusters.microk8s.providers import MicroK8sProvider
from infra.dynamic import GONE
from infra.image.providers import ImportedImageProvider
from infra.process import CommandError
from tests.unit.infra.clusters.microk8s import standin

CHANNEL = "1.34/stable"


@pytest.fixture
def props(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(paths, "STATE", tmp_path)
    monkeypatch.setattr(docker, "identity", dict)
    return {"name": "c", "channel": CHANNEL, "addons": ["dns", "hostpath-storage"]}


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def created(props: dict[str, Any]) -> dict[str, Any]:
    return MicroK8sProvider().create(props).outs or {}


def state(file: Path) -> dict[str, Any]:
    known: dict[str, Any] = json.loads(file.read_text())
    return known


def called(file: Path, *words: str) -> bool:
    return any(call[: len(words)] == list(words) for call in state(file)["calls"])


def test_an_absent_one_is_installed_from_the_pinned_channel(bin_folder: Path, props: dict[str, Any]) -> None:
    file = standin.install(bin_folder)
    assert created(props)["ours"] is True
    assert state(file)["channel"] == CHANNEL
    assert state(file)["enabled"] == ["dns", "hostpath-storage"]
    assert paths.kubeconfig("c").stat().st_mode & 0o777 == 0o600, "it holds an administrator's token"


def test_an_installation_of_ours_is_removed_with_its_data(bin_folder: Path, props: dict[str, Any]) -> None:
    file = standin.install(bin_folder)
    created(props)
    MicroK8sProvider().delete("microk8s", props)
    assert not state(file)["installed"]
    assert state(file)["purged"]
    assert not paths.kubeconfig("c").exists()


def test_an_installation_that_was_there_is_used_and_stays(bin_folder: Path, props: dict[str, Any]) -> None:
    file = standin.install(bin_folder, installed=True, running=True, channel="1.33/stable")
    assert created(props)["ours"] is False
    MicroK8sProvider().delete("microk8s", props)
    assert state(file)["installed"]
    assert state(file)["channel"] == "1.33/stable"
    assert not called(file, "snap", "install")
    assert not called(file, "snap", "remove")


@pytest.mark.parametrize("ours", [True, False])
def test_a_stack_that_moves_to_kind_leaves_what_is_not_ours(
    bin_folder: Path, props: dict[str, Any], ours: bool
) -> None:
    file = standin.install(bin_folder, installed=not ours, running=not ours)
    created(props)
    uid = ownership.begin("c")
    MicroK8sProvider().delete("microk8s", props)
    assert state(file)["installed"] is not ours
    marker = ownership.read_marker("c")
    assert marker
    assert marker.uid == uid
    assert paths.kubeconfig("c").exists(), "it may be kind's by now"


def test_a_stack_that_moves_from_kind_leaves_its_marker_until_kind_is_deleted(
    bin_folder: Path, props: dict[str, Any]
) -> None:
    standin.install(bin_folder)
    uid = ownership.begin("c")
    assert created(props)["ours"] is True
    marker = ownership.read_marker("c")
    assert marker
    assert marker.uid == uid
    paths.forget("c", ownership.KEYS)
    assert installation.is_ours("c")
    assert paths.kubeconfig("c").exists()


def test_a_microk8s_of_others_is_not_ours_for_a_marker_of_kind(
    bin_folder: Path, props: dict[str, Any]
) -> None:
    file = standin.install(bin_folder, installed=True, running=True, channel="1.33/stable")
    ownership.begin("c")
    assert created(props)["ours"] is False
    MicroK8sProvider().update("microk8s", {**props, "channel": "1.33/stable"}, props)
    assert state(file)["channel"] == "1.33/stable"


def test_an_installation_of_a_killed_run_is_still_ours(bin_folder: Path, props: dict[str, Any]) -> None:
    file = standin.install(bin_folder, faults={"stuck": True})
    with pytest.raises(commands.MicroK8sError, match="not ready after"):
        created(props)
    file.write_text(json.dumps(state(file) | {"faults": {}}))
    assert created(props)["ours"] is True


def test_a_stopped_microk8s_is_started(bin_folder: Path, props: dict[str, Any]) -> None:
    file = standin.install(bin_folder, installed=True, running=False)
    created(props)
    assert state(file)["running"]


def test_a_slow_start_is_waited_for(bin_folder: Path, props: dict[str, Any]) -> None:
    standin.install(bin_folder, faults={"slow": 3})
    assert MicroK8sProvider().create(props).id == "microk8s"


@pytest.mark.parametrize(
    ("faults", "channel", "message"),
    [
        ({}, "9.99/stable", "(?s)installed from channel 9.99/stable.*not available.*fix: .*`snap info"),
        ({"denied": True}, CHANNEL, "Insufficient permissions"),
        ({"addon": "dns"}, CHANNEL, "(?s)add-on dns cannot be enabled.*connection refused"),
        ({"stuck": True}, CHANNEL, "(?s)not ready after.*microk8s inspect"),
    ],
)
def test_a_failure_says_what_and_how_to_go_on(
    bin_folder: Path, props: dict[str, Any], faults: dict[str, Any], channel: str, message: str
) -> None:
    standin.install(bin_folder, faults=faults)
    with pytest.raises(ProgramError, match=message):
        MicroK8sProvider().create(props | {"channel": channel})


def test_read_notices_that_it_was_removed(bin_folder: Path, props: dict[str, Any]) -> None:
    file, provider = standin.install(bin_folder), MicroK8sProvider()
    created(props)
    assert provider.read("microk8s", props).id == "microk8s"
    file.write_text(json.dumps(state(file) | {"installed": False}))
    assert provider.read("microk8s", props).id == GONE


def test_a_stopped_microk8s_is_no_reason_for_a_replacement(bin_folder: Path, props: dict[str, Any]) -> None:
    file, provider = standin.install(bin_folder), MicroK8sProvider()
    made = created(props)
    assert provider.diff("microk8s", made, props).changes is False
    file.write_text(json.dumps(state(file) | {"running": False}))
    paths.kubeconfig("c").unlink()

    difference = provider.diff("microk8s", made, props)
    assert (difference.changes, difference.replaces) == (True, [])
    found = provider.read("microk8s", made)

    assert (found.id, (found.outs or {})["instance"]) == ("microk8s", made["instance"])
    assert state(file)["running"]
    assert provider.diff("microk8s", made, props).changes is False


def test_it_is_started_before_pulumi_asks_it(bin_folder: Path, props: dict[str, Any]) -> None:
    file = standin.install(bin_folder)
    created(props)
    file.write_text(json.dumps(state(file) | {"running": False}))
    said: list[str] = []
    selection.repair("c", said.append)
    assert said == ["microk8s was stopped: started"]
    assert state(file)["running"]


def test_a_snapd_that_does_not_answer_is_no_proof_that_it_is_gone(
    bin_folder: Path, props: dict[str, Any]
) -> None:
    standin.install(bin_folder)
    made = created(props)
    (bin_folder / "snap").write_text("#!/bin/sh\necho 'error: cannot communicate with server' >&2; exit 1\n")
    with pytest.raises(CommandError, match="cannot communicate"):
        MicroK8sProvider().read("microk8s", made)


def test_a_changed_channel_moves_an_installation_of_ours(bin_folder: Path, props: dict[str, Any]) -> None:
    file = standin.install(bin_folder)
    made, wanted = created(props), props | {"channel": "1.34/edge"}
    assert MicroK8sProvider().diff("microk8s", made, wanted).changes
    MicroK8sProvider().update("microk8s", made, wanted)
    assert state(file)["channel"] == "1.34/edge"


def test_an_image_is_imported_from_the_engine(bin_folder: Path) -> None:
    file = standin.install(bin_folder, installed=True, running=True)
    image = {"image": "trainstack/trainer:abc", "instance": "one", "command": list(commands.IMPORT_IMAGE)}
    made = ImportedImageProvider().create(image).outs or {}
    assert state(file)["imported"] == ["archive of trainstack/trainer:abc"]
    assert made["reference"] == "trainstack/trainer:abc"


@pytest.mark.parametrize(
    ("there", "may_start", "reached"),
    [
        ({}, True, False),
        ({"installed": True}, False, False),
        ({"installed": True}, True, True),
        ({"installed": True, "running": True}, False, True),
    ],
)
def test_one_that_was_there_can_be_asked_before_the_first_update(
    bin_folder: Path, props: dict[str, Any], there: dict[str, Any], may_start: bool, reached: bool
) -> None:
    file = standin.install(bin_folder, **there)
    installation.reach("c", may_start)
    assert paths.kubeconfig("c").exists() is reached
    assert not called(file, "snap", "install")
    assert not called(file, "microk8s", "enable")


def test_a_machine_without_snaps_has_none(props: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    installation.reach("c", may_start=True)
    assert not paths.kubeconfig("c").exists()

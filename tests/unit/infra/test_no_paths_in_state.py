"""A stack of a shared cluster is applied from any clone without a difference: its state holds no path of one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infra import paths
from infra.dynamic import changed
from infra.objects.api import ApiAddress
from tests.unit.infra.recorder import Recorder
from tests.unit.infra.review import test_rendering

recorder = test_rendering.recorder


@pytest.mark.parametrize("path", test_rendering.STACKS, ids=lambda path: path.stem)
def test_no_input_names_the_clone(path: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    test_rendering.registered(recorder, path, monkeypatch)
    named = {
        f"{args.typ} {args.name}.{key}": value
        for args in recorder.registered
        for key, value in args.inputs.items()
        if str(paths.ROOT) in json.dumps(value, default=str)
    }
    assert not named


def test_a_whole_path_of_an_older_state_is_no_difference() -> None:
    held = {"target": str(paths.models("gpu") / "mnist_cnn.pt")}
    assert changed(("target",), held, {"target": "models/gpu/mnist_cnn.pt"}) == []
    assert changed(("target",), held, {"target": "models/gpu/another.pt"}) == ["target"]


def test_each_clone_means_its_own_file(monkeypatch: pytest.MonkeyPatch) -> None:
    written = paths.portable(paths.kubeconfig("c"))
    monkeypatch.setattr(paths, "ROOT", Path("/another/clone"))
    address = ApiAddress.from_props({"kubeconfigPath": written})
    assert address.kubeconfig == f"/another/clone/{written}"


def test_a_file_outside_of_the_clone_stays_whole() -> None:
    assert paths.portable("/home/you/.kube/config") == "/home/you/.kube/config"
    assert str(paths.resolved("/home/you/.kube/config")) == "/home/you/.kube/config"


def test_without_a_path_the_usual_file_of_this_machine_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/runner/config:/more")
    assert ApiAddress.from_props({"context": "c"}) == ApiAddress("/runner/config", "c")

"""A stack of a shared cluster is applied from any clone without a difference: its state holds no path of one."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from infra import agreed, paths
from infra.clusters.existing import component, kubeconfig
from infra.config import cluster_access, from_file
from infra.objects.api import ApiAddress
from tests.unit.infra.recorder import Recorder
from tests.unit.infra.review import test_rendering
from toolchain.operating import state

recorder = test_rendering.recorder


def reached(recorder: Recorder, path: Path, monkeypatch: pytest.MonkeyPatch) -> state.Access | None:
    """How the toolchain reaches the cluster of a stack file, by nothing but the state that the program makes."""
    test_rendering.registered(recorder, path, monkeypatch)
    held = [{"type": each.typ, "inputs": {**each.inputs}} for each in recorder.registered]
    return state.access({"resources": held})


@pytest.mark.parametrize("path", test_rendering.STACKS, ids=lambda path: path.stem)
def test_the_state_tells_how_each_cluster_is_reached(
    path: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = cluster_access.access(path).kubeconfig or agreed.usual_kubeconfig()
    assert reached(recorder, path, monkeypatch) == state.Access(str(file), from_file(path).cluster.context)


@pytest.mark.parametrize("context", [None, "prod"])
@pytest.mark.parametrize("file", [None, "/etc/there.yaml", str(paths.ROOT / "there.yaml")])
def test_the_state_tells_how_a_cluster_that_is_there_is_reached(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: str | None, context: str | None
) -> None:
    monkeypatch.setattr(component, "kubeconfig_path", kubeconfig.kubeconfig_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "usual.yaml"))
    written = yaml.safe_load(paths.stack_file("existing").read_text())
    written["config"]["trainstack:cluster"] |= {"kubeconfig": file, "context": context}
    path = tmp_path / "stacks" / "Pulumi.existing.yaml"
    path.parent.mkdir()
    path.write_text(yaml.safe_dump(written))
    access = reached(recorder, path, monkeypatch)
    assert access == state.Access(file or str(tmp_path / "usual.yaml"), context)


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

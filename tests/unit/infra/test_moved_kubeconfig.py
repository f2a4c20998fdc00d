"""A kubeconfig that was moved, or whose context was renamed: every provider takes that over and asks nobody."""

from __future__ import annotations

import base64
import itertools
from pathlib import Path
from typing import Any

import dill
import pytest
import yaml
from pulumi.dynamic import ResourceProvider

from infra import agreed, stack_plan
from infra.clusters.discovery import ClusterContents
from infra.objects.api import ApiAddress
from infra.objects.retry import Patience
from infra.run import provider
from infra.run.ending import EndingProvider
from tests.unit.infra import samples
from tests.unit.infra.recorder import Recorder
from tests.unit.infra.review import test_rendering
from tests.unit.infra.samples import JOB

recorder = test_rendering.recorder
MOVED = {"kubeconfigPath": "/new/config"}
RENAMED = {"context": "new"}
NEITHER = {"kubeconfigPath": None, "context": None}
OUTCOME = {"jobStatus": "Succeeded", "accuracy": 0.97, "loss": 0.1, "sha256": "0"}
CLUSTER = {"kind": "existing", "kubeconfig": "/old/config", "context": "old", "namespace": "team"}
SHARED = {"shared": True, "hostPath": "/var/lib/trainstack/models"}
IMAGE = {"reference": "registry.example/trainer@sha256:" + "0" * 64}
USERS = {"Run", "ModelCopy", "OperatorWebhook", "SharedFolder", "TrainJobEnding"}


@pytest.fixture
def held(recorder: Recorder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, dict[str, Any]]:
    """Of each kind of dynamic resource that reaches the cluster: its inputs."""
    found: dict[str, dict[str, Any]] = {}
    for api, install, contents in (("v1", "always", ClusterContents()), ("v2", "never", stack_plan.ASSUMED)):
        operator = {"api": api, "install": install}
        monkeypatch.setattr(stack_plan, "ASSUMED", contents)
        sections = {"cluster": CLUSTER, "operator": operator, "storage": SHARED, "image": IMAGE, "job": JOB}
        file = tmp_path / "stacks" / f"Pulumi.{api}.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(
            yaml.safe_dump({"config": {f"trainstack:{name}": each for name, each in sections.items()}})
        )
        test_rendering.registered(recorder, file, monkeypatch)
    for args in recorder.registered:
        if "kubeconfigPath" in args.inputs:
            found[args.typ.rpartition(":")[2]] = args.inputs
    return found


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: Any, **__: Any) -> None:
        raise AssertionError("the cluster was asked")

    monkeypatch.setattr(ApiAddress, "from_props", asked)


def of(inputs: dict[str, Any]) -> ResourceProvider:
    found = dill.loads(base64.b64decode(inputs["__provider"]))
    assert isinstance(found, ResourceProvider)
    return found


@pytest.mark.usefixtures("nobody")
def test_the_new_address_is_taken_over_in_place(held: dict[str, dict[str, Any]]) -> None:
    assert held.keys() >= USERS
    changes = [MOVED, RENAMED, MOVED | RENAMED, NEITHER]
    for (name, inputs), change in itertools.product(held.items(), changes):
        olds, news = inputs | OUTCOME, inputs | change
        found = of(inputs).diff("id", olds, news)
        assert (name, found.changes, found.replaces) == (name, True, [])
        made = of(inputs).update("id", olds, news).outs
        kept = {key: value for key, value in olds.items() if key != "__provider"}
        assert made == kept | change, f"{name}: nothing else has changed"
    assert not any(of(inputs).diff("id", inputs | OUTCOME, inputs).changes for inputs in held.values())


PROPS = {"namespace": "team", "job": "j", "uid": "u", "run": "j-1"}
PROPS |= {"jobStatus": "Succeeded"}


def kubeconfig(folder: Path, text: str | None) -> dict[str, Any]:
    file = folder / "config"
    if text is not None:
        file.write_text(text)
    return {"kubeconfigPath": str(file), "context": "old"}


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(self: Patience, error: Exception) -> None:
        raise AssertionError("a file is waited for as if it were a server") from error

    monkeypatch.setattr(Patience, "wait", wait)
    monkeypatch.delenv(agreed.DELETE_UNREACHABLE, raising=False)


RENAMED_THERE = yaml.safe_dump(samples.kubeconfig("https://nowhere.example"))
UNUSABLE = pytest.mark.parametrize(
    "text", [None, RENAMED_THERE, "", "contexts: []"], ids=["moved", "renamed", "empty", "no context"]
)


@UNUSABLE
@pytest.mark.usefixtures("hurried")
def test_a_refresh_leaves_a_run_as_it_is(tmp_path: Path, text: str | None) -> None:
    known = PROPS | kubeconfig(tmp_path, text)
    found = provider.RunProvider().read("j-1", known)
    assert (found.id, found.outs) == ("j-1", known)


@UNUSABLE
@pytest.mark.usefixtures("hurried")
def test_a_trainjob_is_deleted_all_the_same(
    tmp_path: Path, text: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    EndingProvider().delete("u", PROPS | kubeconfig(tmp_path, text))
    assert "cannot be suspended before its deletion" in capsys.readouterr().out


@UNUSABLE
def test_of_a_cluster_that_is_proved_gone_the_run_goes(
    tmp_path: Path, text: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(agreed.DELETE_UNREACHABLE, "true")
    assert provider.RunProvider().read("j-1", PROPS | kubeconfig(tmp_path, text)).id == ""

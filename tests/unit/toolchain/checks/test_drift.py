"""`make drift`: what Pulumi would change is told, and an error is not taken for drift."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from toolchain.checks import drift
from toolchain.operating import backend, environment, pulumi_cli, setup, state, user_backend
from toolchain.steps import SetupError

JOB = "urn:pulumi:dev::trainstack::trainstack:job:Job$kubernetes:kubeflow.org/v1:PyTorchJob::PyTorchJob/mnist"


def changed(op: str, **more: Any) -> dict[str, Any]:
    return {"op": op, "urn": JOB, **more}


@pytest.fixture
def warnings() -> list[str]:
    """The program's warnings during the preview."""
    return []


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch, warnings: list[str]) -> list[dict[str, Any]]:
    """What a preview of a stack that is up would do."""
    found: list[dict[str, Any]] = []

    def preview(_: Any, stack: str, *options: str) -> tuple[list[dict[str, Any]], list[str]]:
        assert (stack, options) == ("dev", ("--refresh",))
        return found, warnings

    for module, name, value in (
        (user_backend, "check", lambda stack: None),
        (setup, "project_lock", nullcontext),
        (environment, "load", lambda: {"PULUMI_HOME": "/nowhere"}),
        (backend, "prepare", lambda stack, variables: None),
        (state, "deployment", lambda stack: {"resources": [{"type": "kubernetes:core/v1:Pod"}]}),
        (pulumi_cli, "preview", preview),
        (setup, "prepare_pulumi", lambda: pytest.fail("it is set up")),
    ):
        monkeypatch.setattr(module, name, value)
    return found


def test_nothing_to_do_is_no_drift(steps: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    steps += [changed(op) for op in drift.QUIET]
    assert drift.drift("dev") == drift.NONE
    assert capsys.readouterr().out == "stack dev: no drift\n"


def test_a_model_that_is_not_copied_here_is_no_drift(steps: list[dict[str, Any]]) -> None:
    copy = JOB.replace("kubernetes:kubeflow.org/v1:PyTorchJob::PyTorchJob/mnist", f"{drift.HERE}::mnist")
    steps.append({"op": "create", "urn": copy})
    assert drift.drift("dev") == drift.NONE


def test_an_object_that_is_being_deleted_is_drift_and_another_warning_is_not(
    steps: list[dict[str, Any]], warnings: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    steps.append(changed("same"))
    warnings += ["these objects are being deleted: Job/kubeflow/prepare"] * 2 + ["a variable is set"]
    assert drift.drift("dev") == drift.DRIFT
    assert capsys.readouterr().out == f"{warnings[0]}\n"


@pytest.mark.parametrize("op", ["create", "update", "replace", "delete", "create-replacement"])
def test_each_other_step_is_drift(
    steps: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], op: str
) -> None:
    steps.append(changed(op))
    assert drift.drift("dev") == drift.DRIFT
    assert capsys.readouterr().out == f"{op}: PyTorchJob PyTorchJob/mnist\n"


def test_what_is_short_is_shown_with_its_values(steps: list[dict[str, Any]]) -> None:
    old = {"inputs": {"spec": {"limit": 1, "args": ["x" * 99]}}}
    new = {"inputs": {"spec": {"limit": 2, "args": ["y" * 99]}}}
    paths: dict[str, Any] = {"spec.limit": {}, "spec.args": {}, "spec.list[0]": {}}
    steps.append(changed("update", oldState=old, newState=new, detailedDiff=paths))
    assert drift.differences("dev") == [
        "update: PyTorchJob PyTorchJob/mnist (spec.limit: 1 -> 2, spec.args, spec.list[0])"
    ]


def fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def preview(*_: Any) -> list[dict[str, Any]]:
        raise SetupError("`pulumi preview` failed: the cluster does not answer")

    monkeypatch.setattr(pulumi_cli, "preview", preview)


def never_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "deployment", lambda stack: {})
    monkeypatch.setattr(backend, "prepare", lambda stack, variables: pytest.fail("that would make one"))


@pytest.mark.parametrize(("damage", "said"), [(fails, "does not answer"), (never_up, "stack dev is not up")])
def test_what_cannot_be_told_is_neither(
    steps: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    damage: Callable[[pytest.MonkeyPatch], None],
    said: str,
) -> None:
    damage(monkeypatch)
    with pytest.raises(SetupError, match=said):
        drift.drift("dev")


def test_a_machine_without_set_up_gets_what_a_preview_needs(
    steps: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def prepare() -> dict[str, str]:
        asked.append("pulumi")
        return {}

    monkeypatch.setattr(environment, "load", lambda: None)
    monkeypatch.setattr(setup, "prepare_pulumi", prepare)
    assert drift.drift("dev") == drift.NONE
    assert asked == ["pulumi"]

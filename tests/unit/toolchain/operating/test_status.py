"""`make status` tells healthy, not healthy and unknown apart."""

from __future__ import annotations

from typing import Any

import pytest

from toolchain.machine import engine
from toolchain.machine.engine import Engine
from toolchain.operating import adoption, api_server, environment, leftovers, status
from toolchain.operating.status import Finding, Health
from toolchain.steps import SetupError

OWNER = "0123456789abcdef"


def live(kind: str, name: str, owner: str = OWNER, **more: Any) -> dict[str, Any]:
    labels = {adoption.OWNER_LABEL: owner} if owner else {}
    return {"kind": kind, "metadata": {"name": name, "labels": labels, **more.pop("metadata", {})}, **more}


def condition(*names: str) -> dict[str, Any]:
    return {"conditions": [{"type": name, "status": "True"} for name in names]}


def healthy() -> list[dict[str, Any]]:
    return [
        live("Namespace", "kubeflow"),
        live("Deployment", "training-operator", spec={"replicas": 1}, status={"availableReplicas": 1}),
        live("PersistentVolume", "models", status={"phase": "Bound"}),
        live("PersistentVolumeClaim", "models", status={"phase": "Bound"}),
        live("PyTorchJob", "job", status=condition("Created", "Running", "Succeeded")),
    ]


def changed(kind: str, **more: Any) -> list[dict[str, Any]]:
    return [{**each, **more} if each["kind"] == kind else each for each in healthy()]


def test_a_healthy_stack_shows_its_owner() -> None:
    findings = status.inspect_objects(healthy())
    assert status.overall(findings) is Health.HEALTHY
    assert findings[-1].said == OWNER


@pytest.mark.parametrize(
    "objects",
    [
        changed("Deployment", status={}),
        changed("PersistentVolume", status={"phase": "Released"}),
        changed("PersistentVolumeClaim", status={"phase": "Pending"}),
        changed("PersistentVolumeClaim", metadata={"name": "models", "deletionTimestamp": "now"}),
        changed("PyTorchJob", status=condition("Created", "Failed")),
        changed("PyTorchJob", status={}),
        [each for each in healthy() if each["kind"] != "PyTorchJob"],
        [*healthy(), live("PersistentVolume", "other", "f" * 16, status={"phase": "Bound"})],
        [{**each, "metadata": {**each["metadata"], "labels": {}}} for each in healthy()],
        [],
    ],
    ids=[
        "operator",
        "volume",
        "claim",
        "terminating",
        "failed",
        "no condition",
        "no job",
        "two owners",
        "no owner",
        "nothing",
    ],
)
def test_whatever_is_wrong_is_not_healthy(objects: list[dict[str, Any]]) -> None:
    assert status.overall(status.inspect_objects(objects)) is Health.NOT


def test_known_to_be_wrong_weighs_more_than_unknown() -> None:
    fine, wrong, unknown = (Finding("a", each, "") for each in Health)
    assert status.overall([fine, unknown]) is Health.UNKNOWN
    assert status.overall([fine, unknown, wrong]) is Health.NOT


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the parts answer, to be changed by a test."""
    answers: dict[str, Any] = {
        "engine": Engine("docker", ours=True),
        "nodes": ["one"],
        "state": "running",
        "problem": None,
        "objects": healthy(),
    }
    monkeypatch.setattr(environment, "load", dict)
    monkeypatch.setattr(environment, "for_stack", lambda found, stack: {"PATH": ""})
    monkeypatch.setattr(environment, "cluster", lambda stack: "trainstack-dev")
    monkeypatch.setattr(engine, "find", lambda: answers["engine"])
    monkeypatch.setattr(Engine, "output", lambda self, *words: answers["state"])
    monkeypatch.setattr(leftovers, "nodes", lambda engine, cluster: answers["nodes"])
    monkeypatch.setattr(api_server, "problem", lambda variables, access: answers["problem"])
    monkeypatch.setattr(environment, "namespace", lambda stack: "kubeflow")
    monkeypatch.setattr(status, "_objects", lambda *_: _or_raise(answers["objects"]))
    return answers


def _or_raise(answer: Any) -> Any:
    if isinstance(answer, Exception):
        raise answer
    return answer


@pytest.mark.parametrize(
    ("part", "answer", "expected", "said"),
    [
        ("objects", healthy(), 0, OWNER),
        ("engine", None, 1, "no container engine answers"),
        ("nodes", [], 1, "is not there"),
        ("state", "exited", 1, "exited"),
        ("problem", "connection refused", 2, "connection refused"),
        ("objects", SetupError("a time-out"), 2, "a time-out"),
        ("objects", [], 1, "no job"),
    ],
)
def test_the_exit_status_says_how_the_stack_is(
    told: dict[str, Any], capsys: pytest.CaptureFixture[str], part: str, answer: Any, expected: int, said: str
) -> None:
    told[part] = answer
    assert status.status("dev") == expected
    assert said in capsys.readouterr().out

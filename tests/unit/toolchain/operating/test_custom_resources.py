"""A custom resource definition that the API server holds and does not serve yet is waited for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolchain.operating import api_server

Fake = Callable[[str, str], Path]
NAME = "pytorchjobs.kubeflow.org"
UNKNOWN = "error: the server doesn't have a resource type"
# kubectl of a server that holds the definition, and serves what it defines once the file is there.
HOLDS = """
case "$*" in
*customresourcedefinitions*) echo customresourcedefinition/pytorchjobs.kubeflow.org ;;
*) [ -e {served} ] || {{ touch {asked}; echo "{unknown}" >&2; exit 1; }} ;;
esac
"""
NOTHING = {
    "served": HOLDS.format(served="/", asked="/dev/null", unknown=""),
    "gone": f'case "$*" in *customresourcedefinitions*) ;; *) echo "{UNKNOWN}" >&2; exit 1 ;; esac',
    "no answer": 'echo "Unable to connect to the server: EOF" >&2; exit 1',
    "no right": 'echo "Error from server (Forbidden): forbidden" >&2; exit 1',
}


def deployment(**outputs: Any) -> dict[str, Any]:
    return {
        "resources": [
            {"type": "pulumi:providers:kubernetes", "inputs": {"kubeconfigPath": "/somewhere"}},
            {"type": api_server.DEFINITION, **outputs},
        ]
    }


MADE = deployment(outputs={"metadata": {"name": NAME}})
WITHOUT = {"empty": {}, "planned": deployment(), "pending": deployment(outputs={})}


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_server, "PAUSE_S", 0.01)


def variables() -> dict[str, str]:
    return {"PATH": os.environ["PATH"]}


def test_one_that_is_not_served_is_waited_for(
    fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = tmp_path / "asked"
    fake("kubectl", HOLDS.format(served=asked, asked=asked, unknown=UNKNOWN))
    assert api_server.wait_for_definitions(variables(), MADE)
    assert f"waiting for the API server to serve {NAME}" in capsys.readouterr().err


@pytest.mark.parametrize("script", NOTHING.values(), ids=NOTHING)
def test_with_nothing_to_wait_for_nothing_is_mended(fake: Fake, script: str) -> None:
    fake("kubectl", script)
    assert not api_server.wait_for_definitions(variables(), MADE)


@pytest.mark.parametrize("state", WITHOUT.values(), ids=WITHOUT)
def test_a_state_without_one_asks_nobody(fake: Fake, tmp_path: Path, state: dict[str, Any]) -> None:
    fake("kubectl", f"touch {tmp_path}/asked")
    assert not api_server.wait_for_definitions(variables(), state)
    assert not (tmp_path / "asked").exists()


def test_the_wait_ends(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_server, "DEFINITIONS_PATIENCE_S", 0.05)
    fake("kubectl", HOLDS.format(served=tmp_path / "never", asked=tmp_path / "asked", unknown=UNKNOWN))
    assert not api_server.wait_for_definitions(variables(), MADE)

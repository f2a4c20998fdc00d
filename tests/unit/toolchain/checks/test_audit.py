"""`make audit` hands on what only the toolchain knows."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from toolchain.checks import audit
from toolchain.images.cluster_images import PUBLISHED_NODE
from toolchain.operating import environment, setup
from toolchain.paths import ROOT
from toolchain.tools import venv


def test_the_program_gets_the_published_node_image_and_what_setup_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[tuple[list[str], dict[str, str]]] = []

    def run(command: list[str], *, cwd: Path, env: dict[str, str]) -> Any:
        asked.append((command, env))
        return SimpleNamespace(returncode=3)

    monkeypatch.setattr(setup, "LOCAL", tmp_path)
    monkeypatch.setattr(venv, "ensure", lambda: tmp_path)
    monkeypatch.setattr(environment, "load", lambda: {"TRAINSTACK_NODE_IMAGE": "trainstack/node:1"})
    monkeypatch.setattr(subprocess, "run", run)
    assert audit.audit() == 3
    ((command, variables),) = asked
    assert command[1:] == ["-m", "infra.audit", str(audit.BILL.relative_to(ROOT)), PUBLISHED_NODE]
    assert variables["TRAINSTACK_NODE_IMAGE"] == "trainstack/node:1"

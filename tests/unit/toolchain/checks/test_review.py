"""`make review` fetches what it lacks, and nothing more."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from toolchain.checks import review
from toolchain.steps import SetupError
from toolchain.tools import build, venv

EMPTY = "/nowhere"


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What was fetched or built."""
    done: list[str] = []

    def source(module: Any, path: str, folder: str) -> Path:
        done.append(path)
        return tmp_path / folder

    def built(module: Any, *binaries: str) -> Path:
        done.extend(binaries)
        return tmp_path / "built"

    monkeypatch.setattr(build, "source", source)
    monkeypatch.setattr(build, "build", built)
    return done


def test_the_base_is_the_revision_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    run: list[list[str]] = []

    def remember(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        run.append(command)
        return subprocess.CompletedProcess(command, 3)

    def unpack(base: str, place: Path) -> str:
        assert (base, place.is_dir()) == ("released", True)
        return "`released`"

    monkeypatch.setattr(venv, "ensure", lambda: None)
    monkeypatch.setattr(review, "unpack_base", unpack)
    monkeypatch.setattr(review, "with_schemas", lambda found: found)
    monkeypatch.setattr(subprocess, "run", remember)
    assert review.review("dev", "released") == 3
    assert run[-1][1:6] == ["-m", "infra.review", "dev", "--page", str(review.PAGES / "dev.md")]
    assert run[-1][-2:] == ["--revision", "`released`"]


def test_the_schemas_come_from_the_pinned_module(fetched: list[str], tmp_path: Path) -> None:
    found = review.with_schemas({"PATH": EMPTY})
    assert fetched == ["kubeconform", "k8s.io/kubernetes"]
    assert found["PATH"] == f"{EMPTY}:{tmp_path / 'built'}"
    assert found[review.OPENAPI] == str(tmp_path / "api" / "openapi-spec" / "swagger.json")


def test_without_them_a_review_says_why_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any) -> Path:
        raise SetupError("Go is not installed", "install it")

    monkeypatch.setattr(build, "build", refuse)
    assert review.with_schemas({"PATH": EMPTY}) == {"PATH": EMPTY}
    assert "schemas are not checked: Go is not installed" in capsys.readouterr().err


def test_a_stack_that_there_is_not_is_refused() -> None:
    with pytest.raises(SetupError, match="there is no stack 'none'"):
        review.review("none")

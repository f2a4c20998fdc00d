"""Bases that are named by a tag alone get the digest that their registry has for it, and nothing else changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra import docker, paths
from infra.audit import images
from infra.clusters.kind.component import REGISTRY_IMAGE
from infra.process import CommandError
from infra.training_operator.patches import INIT_IMAGE

OLD = f"sha256:{'a' * 64}"
NEW = f"sha256:{'b' * 64}"
COMPONENT = "infra/clusters/kind/component.py"
DOCKERFILE = "Dockerfile_training"
TEXTS = {
    DOCKERFILE: f"# debian:slim\nARG CPU_BASE=debian:slim\nARG GPU_BASE=r.io:5000/gpu:1@{OLD}\nFROM ${{CPU_BASE}}\n",
    "examples/own/Dockerfile": "ARG CPU_BASE=debian:slim\nARG DATA_IMAGE=scratch\n",
    COMPONENT: 'OTHER = "registry:3"\nREGISTRY_IMAGE = "registry:3"\n',
}


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for file, text in TEXTS.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    monkeypatch.setattr(docker, "ensure_answers", lambda: None)
    return tmp_path


def texts(clone: Path) -> dict[str, str]:
    return {file: (clone / file).read_text() for file in TEXTS}


def pulls(monkeypatch: pytest.MonkeyPatch, *unknown: str) -> list[str]:
    """The references that are pulled from now on; of `unknown` no registry knows anything."""
    asked: list[str] = []

    def output(*command: str) -> str:
        assert command[:2] == ("docker", "pull")
        asked.append(command[2])
        if command[2] in unknown:
            raise CommandError("manifest unknown")
        return f"slim: Pulling from library\nDigest: {NEW}\nStatus: Downloaded\n"

    monkeypatch.setattr(images, "output", output)
    return asked


def test_every_image_that_the_program_names_is_found() -> None:
    found = dict(images.named(paths.ROOT))
    assert {REGISTRY_IMAGE, INIT_IMAGE} <= set(found)
    assert {"Dockerfile_training", "examples/own-script/Dockerfile", COMPONENT} <= set(found.values())


def test_what_has_no_digest_gets_one(
    clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = pulls(monkeypatch)
    assert images.lock_all(clone) == 0
    assert asked == ["debian:slim", "debian:slim", "registry:3"], "what has a digest is not asked for"
    assert texts(clone) == {
        DOCKERFILE: TEXTS[DOCKERFILE].replace("=debian:slim", f"=debian:slim@{NEW}"),
        "examples/own/Dockerfile": f"ARG CPU_BASE=debian:slim@{NEW}\nARG DATA_IMAGE=scratch\n",
        COMPONENT: f'OTHER = "registry:3"\nREGISTRY_IMAGE = "registry:3@{NEW}"\n',
    }
    said = capsys.readouterr().out
    assert f"{COMPONENT}: registry:3@{NEW}" in said
    assert "make review" in said

    assert images.lock_all(clone) == 0
    assert len(asked) == 3, "a second time there is nothing to do"
    assert capsys.readouterr().out == "every image that the files name has a digest\n"


def test_one_that_cannot_be_pulled_is_named_and_the_others_are_locked(
    clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pulls(monkeypatch, "debian:slim")
    assert images.lock_all(clone) == 1
    assert "Dockerfile_training: debian:slim still has no digest: manifest unknown" in capsys.readouterr().err
    assert [file for file, text in texts(clone).items() if text != TEXTS[file]] == [COMPONENT]


def test_a_pull_that_names_no_digest_changes_nothing(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "output", lambda *command: "Status: Image is up to date\n")
    assert images.lock_all(clone) == 1
    assert texts(clone) == TEXTS


def test_without_an_engine_nothing_is_asked(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = pulls(monkeypatch)

    def silent() -> None:
        raise docker.EngineError("the container engine does not answer")

    monkeypatch.setattr(docker, "ensure_answers", silent)
    with pytest.raises(docker.EngineError):
        images.lock_all(clone)
    assert not asked
    assert texts(clone) == TEXTS

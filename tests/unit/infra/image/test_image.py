"""The trainer image's inputs, and bringing it where it is pulled from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.clusters import registries
from infra.config.image import ImageConfig, Target
from infra.image import inputs, push
from infra.image.providers import RegistryImageProvider
from infra.process import CommandError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "trainer").mkdir()
    (tmp_path / "Dockerfile_training").write_text("FROM x AS cpu\n")
    (tmp_path / "trainer" / "train.py").write_text("pass\n")
    return tmp_path


def tag(root: Path, **changes: Any) -> str:
    return inputs.build(ImageConfig.model_validate(changes), root, {}).tag


def test_the_tag_follows_what_goes_into_the_image(root: Path) -> None:
    first = tag(root)
    (root / "README.md").write_text("not in the image")
    (root / "trainer" / "__pycache__").mkdir()
    (root / "trainer" / "__pycache__" / "train.pyc").write_text("not either")
    assert tag(root) == first
    (root / "trainer" / "train.py").write_text("pass  # changed\n")
    assert tag(root) != first


@pytest.mark.parametrize("changes", [{"target": "gpu"}, {"preset": "traindb"}])
def test_target_and_preset_make_another_image(root: Path, changes: dict[str, str]) -> None:
    assert tag(root, **changes) != tag(root)


def test_only_the_bases_that_the_target_builds_on_count(root: Path) -> None:
    environment = {"TRAINSTACK_CPU_BASE": "mine", "TRAINSTACK_GPU_BASE": "other"}
    assert inputs.arguments(ImageConfig(), environment) == {"CPU_BASE": "mine"}
    both = {"CPU_BASE": "mine", "GPU_BASE": "other"}  # the digits' table comes from a stage on the CPU base
    assert inputs.arguments(ImageConfig(target=Target.GPU), environment) == both


OURS, THEIRS = "sha256:" + "1" * 64, "sha256:" + "2" * 64
HOST = "127.0.0.1:5000"


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What docker is asked. Somebody else's image stands in the registry under our tag."""
    run: list[tuple[str, ...]] = []

    def output(*command: str) -> str:
        run.append(command[:2])
        return f"elsewhere/trainer@{THEIRS}\n{HOST}/trainer@{OURS}\n" if "inspect" in command else ""

    monkeypatch.setattr(push, "output", output)
    monkeypatch.setattr(push, "digest", lambda *place: THEIRS)
    monkeypatch.setattr(registries, "address_for_host", lambda name: HOST)
    return run


PUSH = [("docker", "tag"), ("docker", "push"), ("docker", "image"), ("docker", "rmi")]


def test_the_digest_is_the_engines_whatever_a_tag_of_the_registry_stands_for(
    commands: list[tuple[str, ...]],
) -> None:
    props = {
        "image": "trainer:1",
        "registry": "c-registry",
        "container": "x",
        "repository": "trainer",
        "tag": "1",
    }
    made = RegistryImageProvider().create(props).outs or {}
    assert made["reference"] == f"c-registry:5000/trainer@{OURS}"
    assert commands == PUSH, "it is pushed in any case, and named no longer by its port"


def test_a_push_without_a_digest_is_an_error(
    commands: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registries, "address_for_host", lambda name: "127.0.0.1:6000")
    with pytest.raises(CommandError, match="knows no digest"):
        push.to_registry("trainer:1", "c-registry", "trainer", "1")
    assert commands == PUSH, "its name is taken back"


def test_an_image_lost_from_the_registry_is_pushed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    props = {"registry": "c-registry", "repository": "trainer", "tag": "1", "digest": OURS}
    there = {OURS}
    monkeypatch.setattr(
        push, "in_registry", lambda name, repository, asked: asked if asked in there else None
    )
    assert RegistryImageProvider().read("x", props).id == "x", "whatever its tag stands for now"
    there.clear()
    assert RegistryImageProvider().read("x", props).id == ""


def test_a_refused_push_says_how_to_log_in(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*command: str) -> str:
        if command[1] == "push":
            raise CommandError("no basic auth credentials")
        return ""

    monkeypatch.setattr(push, "output", refuse)
    with pytest.raises(push.CredentialsError, match=r"fix: docker login ghcr\.io"):
        push.to_repository("trainer:1", "ghcr.io/you/trainer", "1")

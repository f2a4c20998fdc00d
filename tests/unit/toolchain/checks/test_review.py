"""`make review` fetches what it lacks, and nothing more."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolchain.checks import base_revision, review
from toolchain.images import cluster_images, pulled_kubectl
from toolchain.machine import engine
from toolchain.operating import environment
from toolchain.steps import SetupError
from toolchain.tools import build, venv

EMPTY = "/nowhere"


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What was fetched or built."""
    done: list[str] = []

    def source(module: Any, path: str, folder: str) -> Path:
        done.append(path)
        (tmp_path / folder / "overlays" / "standalone").mkdir(parents=True)
        return tmp_path / folder

    def built(module: Any, *binaries: str) -> Path:
        done.extend(binaries)
        return tmp_path / "built"

    monkeypatch.setattr(build, "source", source)
    monkeypatch.setattr(build, "build", built)
    return done


def test_a_fresh_clone_fetches_the_operators_module(
    fetched: list[str], fake: Callable[[str, str], Path], tmp_path: Path
) -> None:
    fake("go", "exit 1")
    kubectl = fake("kubectl", "exit 1")
    found = review.with_operator({"PATH": str(kubectl.parent)}, wants_trainer=False)
    assert fetched == ["github.com/kubeflow/training-operator"]
    assert found[cluster_images.OPERATOR_OVERLAY] == str(tmp_path / "manifests" / "overlays" / "standalone")


def test_a_stack_of_v2_fetches_both_modules_of_its_controllers(
    fetched: list[str], fake: Callable[[str, str], Path], tmp_path: Path
) -> None:
    fake("go", "exit 1")
    kubectl = fake("kubectl", "exit 1")
    found = review.with_operator({"PATH": str(kubectl.parent)}, wants_trainer=True)
    assert fetched == ["github.com/kubeflow/trainer/v2", "sigs.k8s.io/jobset"]
    assert found[cluster_images.TRAINER_MANIFESTS] == str(tmp_path / "manifests" / "base")
    assert found[cluster_images.JOBSET_MANIFESTS] == str(tmp_path / "config" / "default")
    assert cluster_images.OPERATOR_OVERLAY not in found


@pytest.mark.parametrize("wants", [True, False])
def test_a_stack_with_gangs_fetches_the_schedulers_module(
    fetched: list[str],
    fake: Callable[[str, str], Path],
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    wants: bool,
) -> None:
    fake("go", "exit 1")
    kubectl = fake("kubectl", "exit 1")
    monkeypatch.setattr(environment, "installs_operator", lambda stack: True)
    monkeypatch.setattr(environment, "wants_trainer", lambda stack: False)
    monkeypatch.setattr(environment, "wants_gangs", lambda stack: wants)
    overlay = {cluster_images.OPERATOR_OVERLAY: str(tmp_path)}
    found = review.with_operator_of("dev", {"PATH": str(kubectl.parent), **overlay})
    assert fetched == (["sigs.k8s.io/scheduler-plugins"] if wants else [])
    assert found.get(cluster_images.SCHEDULER_MANIFESTS) == (str(tmp_path / "manifests") if wants else None)
    assert review.with_operator_of("dev", found) == found, "it is fetched once"


def test_kubectl_is_built_where_there_is_none(
    fetched: list[str], fake: Callable[[str, str], Path], tmp_path: Path
) -> None:
    fake("go", "exit 1")
    found = review.with_operator({"PATH": EMPTY}, wants_trainer=False)
    assert "kubectl" in fetched
    assert found["PATH"] == f"{tmp_path / 'built'}:{EMPTY}"


@pytest.mark.parametrize("pulls", [True, False])
@pytest.mark.parametrize("was_built", [True, False])
def test_without_go_kubectl_is_that_of_the_node_image(
    fetched: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pulls: bool, was_built: bool
) -> None:
    monkeypatch.setenv("PATH", EMPTY)
    monkeypatch.setattr(build, "built", lambda *_: tmp_path if was_built else None)
    monkeypatch.setattr(engine, "find", lambda: engine.Engine("docker", ours=False))
    monkeypatch.setattr(pulled_kubectl, "can_be_had", lambda _: pulls)
    monkeypatch.setattr(pulled_kubectl, "ensure", lambda _: tmp_path / "pulled" / "kubectl")
    found = review.with_operator({"PATH": EMPTY}, wants_trainer=False)
    copied = pulls and not was_built
    assert fetched == ([] if copied else ["kubectl"])
    assert found["PATH"] == f"{tmp_path / ('pulled' if copied else 'built')}:{EMPTY}"


def test_without_go_the_published_manifests_are_asked_for(
    fetched: list[str], fake: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    kubectl = fake("kubectl", "exit 1")
    monkeypatch.setenv("PATH", str(kubectl.parent))
    assert review.with_operator({"PATH": str(kubectl.parent)}, wants_trainer=False) == {
        "PATH": str(kubectl.parent)
    }
    assert fetched == []


def test_what_set_up_found_is_used(
    fetched: list[str], fake: Callable[[str, str], Path], tmp_path: Path
) -> None:
    fake("go", "exit 1")
    kubectl = fake("kubectl", "exit 1")
    found = {"PATH": str(kubectl.parent), cluster_images.OPERATOR_OVERLAY: str(tmp_path)}
    assert review.with_operator(found, wants_trainer=False) == found
    assert fetched == []


@pytest.mark.parametrize("trainer", [False, True])
@pytest.mark.parametrize(("installs", "fetches"), [(True, True), (False, False)])
def test_only_a_stack_that_brings_the_operator_needs_it(
    monkeypatch: pytest.MonkeyPatch, installs: bool, fetches: bool, trainer: bool
) -> None:
    asked: list[bool] = []
    run: list[list[str]] = []

    def with_operator(variables: dict[str, str], wants_trainer: bool) -> dict[str, str]:
        asked.append(wants_trainer)
        return variables

    def remember(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        run.append(command)
        return subprocess.CompletedProcess(command, 3)

    monkeypatch.setattr(venv, "ensure", lambda: None)
    monkeypatch.setattr(environment, "tools", dict)
    monkeypatch.setattr(environment, "installs_operator", lambda stack: installs)
    monkeypatch.setattr(environment, "wants_trainer", lambda stack: trainer)
    monkeypatch.setattr(environment, "wants_gangs", lambda stack: False)
    monkeypatch.setattr(review, "with_operator", with_operator)

    def unpack(base: str, place: Path) -> str:
        assert (base, place.is_dir()) == ("released", True)
        return "`released`"

    monkeypatch.setattr(base_revision, "unpack", unpack)
    monkeypatch.setattr(review, "with_schemas", lambda found: found)
    monkeypatch.setattr(subprocess, "run", remember)
    assert review.review("dev", "released") == 3
    assert asked == ([trainer] if fetches else [])
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

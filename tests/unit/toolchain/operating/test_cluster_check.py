"""What `make doctor` says of each stack's cluster, before the packages are there that read the stack file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from infra import paths
from infra.config.cluster import ClusterKind
from infra.config.load import from_file
from toolchain import stack_files
from toolchain.operating import api_server, doctor, environment
from toolchain.operating.state import Access
from toolchain.operating.status import Health
from toolchain.paths import ROOT
from toolchain.tools import installed

Fake = Callable[[str, str], Path]
COMMITTED = sorted(each.suffixes[0].lstrip(".") for each in (ROOT / "stacks").glob("Pulumi.*.yaml"))
TEXTS = {
    "config:\n  trainstack:job:\n    epochs: 1\n": ClusterKind.KIND,
    "config:\n  trainstack:cluster:\n    workers: 1\n  trainstack:storage:\n    kind: nfs\n": ClusterKind.KIND,
    "config:\n  trainstack:storage:\n    kind: nfs\n": ClusterKind.KIND,
    "config:\n  trainstack:cluster: {kind: existing}\n": ClusterKind.EXISTING,
    "config:\n  trainstack:cluster: {name: a, kind: existing}\n": ClusterKind.EXISTING,
    "config:\n  trainstack:cluster:\n    kind: microk8s\n": ClusterKind.MICROK8S,
    "config:\n  trainstack:cluster:\n    # ours\n    name: a\n\n    kind: existing # theirs\n": ClusterKind.EXISTING,
}


@pytest.fixture
def stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of stack files; no packages are there, no kubeconfig, and no tool."""
    monkeypatch.setattr(stack_files, "STACKS", tmp_path)
    monkeypatch.setattr(environment, "cluster_kind", lambda _: None)
    monkeypatch.setattr(environment, "access", lambda _: None)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(installed, "choose", lambda: {"kubectl": installed.Choice("kubectl", None)})
    monkeypatch.setattr(installed.Choice, "is_available", property(lambda each: each.own is not None))
    return tmp_path


def write(folder: Path, text: str) -> None:
    (folder / "Pulumi.own.yaml").write_text(text)


@pytest.mark.parametrize(("text", "kind"), TEXTS.items())
def test_the_kind_is_read_without_a_parser(stacks: Path, text: str, kind: ClusterKind) -> None:
    write(stacks, text)
    assert doctor.cluster_kind("own") == kind


BASES = {
    "  trainstack:cluster: {workers: 1}\n": ClusterKind.EXISTING,
    "  trainstack:cluster: {kind: microk8s}\n": ClusterKind.MICROK8S,
    "  trainstack:job: {name: mnist}\n": ClusterKind.EXISTING,
}


@pytest.mark.parametrize(("lines", "kind"), BASES.items())
def test_what_the_stack_does_not_say_its_base_says(stacks: Path, lines: str, kind: ClusterKind) -> None:
    write(stacks, f"config:\n  trainstack:extends: base\n{lines}")
    assert doctor.cluster_kind("own") == (kind if kind is ClusterKind.MICROK8S else ClusterKind.KIND)
    (stacks / "base.yaml").write_text("config:\n  trainstack:cluster:\n    kind: existing\n")
    assert doctor.cluster_kind("own") == kind


@pytest.mark.parametrize("stack", COMMITTED)
def test_it_reads_every_committed_stack_as_the_models_do(stack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "cluster_kind", lambda _: None)
    assert doctor.cluster_kind(stack) == from_file(paths.stack_file(stack)).cluster.kind


def test_a_cluster_that_kind_makes(stacks: Path) -> None:
    write(stacks, "")
    assert doctor.cluster("own") == (Health.HEALTHY, "made with kind")


@pytest.mark.parametrize(
    ("program", "health"), [("microk8s", Health.HEALTHY), ("snap", Health.HEALTHY), ("other", Health.NOT)]
)
def test_microk8s_is_a_snap(stacks: Path, fake: Fake, program: str, health: Health) -> None:
    write(stacks, "config:\n  trainstack:cluster: {kind: microk8s}\n")
    fake(program, "exit 0")
    assert doctor.cluster("own")[0] is health


@pytest.mark.parametrize("place", ["usual", "variable", "stack file"])
def test_a_cluster_that_is_there(
    stacks: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    write(stacks, "config:\n  trainstack:cluster: {kind: existing}\n")
    health, *said = doctor.cluster("own")
    assert health is Health.NOT
    assert "no kubeconfig" in said[0]
    assert "export KUBECONFIG=" in said[1]
    file = stacks / "home" / ".kube" / "config" if place == "usual" else stacks / "elsewhere"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("")
    if place == "variable":
        monkeypatch.setenv("KUBECONFIG", f"{stacks}/nothing:{file}")
    if place == "stack file":
        monkeypatch.setattr(environment, "access", lambda _: Access(str(file), "theirs"))
    health, *said = doctor.cluster("own")
    assert (health, str(file) in said[0], "not asked" in said[0]) == (Health.HEALTHY, True, True)
    kubectl = installed.Choice("kubectl", stacks / "kubectl")
    monkeypatch.setattr(installed, "choose", lambda: {"kubectl": kubectl})
    for why, expected in ((None, Health.HEALTHY), ("connection refused", Health.NOT)):

        def problem(variables: object, access: Access, why: str | None = why) -> str | None:
            assert access == Access(str(file), "theirs" if place == "stack file" else None)
            return why

        monkeypatch.setattr(api_server, "problem", problem)
        health, *said = doctor.cluster("own")
        assert (health, (why or "answers") in said[0]) == (expected, True)

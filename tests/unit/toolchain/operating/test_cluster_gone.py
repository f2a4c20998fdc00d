"""Only whoever owns a cluster proves that it is gone; objects leave the state for nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra import agreed, docker, paths
from infra.clusters.kind import ownership
from toolchain.machine import engine as container_engine
from toolchain.machine.engine import Engine
from toolchain.operating import api_server, environment, leftovers, pulumi_cli, state, up, user_backend
from toolchain.steps import SetupError

Fake = Callable[[str, str], Path]
STACK = "urn:pulumi:dev::trainstack"


def resource(kind: str, name: str, **inputs: Any) -> dict[str, Any]:
    return {"urn": f"{STACK}::{kind}::{name}", "type": kind, "inputs": inputs, "outputs": dict(inputs)}


def deployment(*clusters: dict[str, Any]) -> dict[str, Any]:
    namespace = resource("kubernetes:core/v1:Namespace", "kubeflow", metadata={"name": "kubeflow"})
    return {"resources": [*clusters, resource(agreed.PROVIDER, "dev"), namespace]}


KIND = resource(agreed.KIND_CLUSTER, "trainstack-dev", config=json.dumps({"name": "trainstack-dev"}))
MICROK8S = resource(agreed.MICROK8S, "microk8s", kubeconfigPath="/k.yaml")
EXISTING = resource("pulumi-python:dynamic/trainstack:Run", "job", kubeconfigPath="/k.yaml", context=None)


@pytest.fixture
def engine(fake: Fake) -> Callable[[str, str], Engine]:
    """An engine whose `docker ps` and `docker inspect` print the two given texts."""

    def made(listed: str, mounts: str) -> Engine:
        return Engine(str(fake("docker", f"case $1 in ps) {listed} ;; inspect) {mounts} ;; esac")), ours=True)

    return made


def mounts(file: Path) -> str:
    return f"echo '{json.dumps([{'Source': str(file)}])}'"


def variables() -> dict[str, str]:
    return {"PATH": os.environ["PATH"]}


@pytest.mark.parametrize(
    ("listed", "mounted", "gone"),
    [
        (":", lambda: ":", True),
        ("echo node", lambda: mounts(Path("/another/clone/.trainstack/clusters/trainstack-dev.json")), True),
        ("echo node", lambda: mounts(leftovers.marker("trainstack-dev")), False),
    ],
    ids=["no such container", "a node of another clone", "a node of ours, whatever its state"],
)
def test_the_engine_says_whether_a_kind_cluster_is_gone(
    engine: Callable[[str, str], Engine], listed: str, mounted: Callable[[], str], gone: bool
) -> None:
    assert leftovers.cluster_is_gone(deployment(KIND), engine(listed, mounted()), variables()) is gone


@pytest.mark.parametrize(
    ("marker", "gone"),
    [
        ({"id": "two", "finished": False}, True),
        ({"id": "one", "finished": False}, False),
        ({"id": "two", "finished": True}, False),
        ({"id": "two"}, False),
        ([], False),
    ],
    ids=["its successor is unfinished", "it is unfinished itself", "finished", "an older marker", "damaged"],
)
def test_a_cluster_whose_replacement_was_interrupted_is_gone(
    engine: Callable[[str, str], Engine], marker: object, gone: bool
) -> None:
    """The half-made node of its successor is no sign of it. Else `make up` would wait for its API server for ever."""
    leftovers.marker("trainstack-dev").parent.mkdir(parents=True, exist_ok=True)
    leftovers.marker("trainstack-dev").write_text(json.dumps(marker))
    held = {**KIND, "outputs": {**KIND["outputs"], "instance": "one"}}
    there = engine("echo node", mounts(leftovers.marker("trainstack-dev")))
    try:
        assert leftovers.cluster_is_gone(deployment(held), there, variables()) is gone
    finally:
        leftovers.marker("trainstack-dev").unlink()


def test_the_marker_that_the_program_writes_is_the_one_that_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(paths, "STATE", tmp_path)
    monkeypatch.setattr(docker, "identity", lambda: {"id": "AAAA", "host": "unix:///a"})
    uid = ownership.begin("c")
    assert leftovers.unfinished("c") == uid
    ownership.finish("c", uid)
    assert leftovers.unfinished("c") is None
    assert leftovers.begun() == ["c"]


def test_an_engine_that_does_not_answer_proves_nothing(engine: Callable[[str, str], Engine]) -> None:
    silent = engine("echo 'Cannot connect to the Docker daemon' >&2; exit 1", ":")
    with pytest.raises(SetupError, match="Cannot connect"):
        leftovers.cluster_is_gone(deployment(KIND), silent, variables())


@pytest.mark.parametrize(
    ("script", "gone"),
    [
        ("echo 'error: no matching snaps installed' >&2; exit 1", True),
        ("echo 'error: cannot communicate with server' >&2; exit 1", False),
        ("echo microk8s", False),
    ],
)
def test_snapd_says_whether_microk8s_is_gone(
    fake: Fake, engine: Callable[[str, str], Engine], script: str, gone: bool
) -> None:
    fake("snap", script)
    assert leftovers.cluster_is_gone(deployment(MICROK8S), engine(":", ":"), variables()) is gone


def test_somebody_elses_cluster_is_never_proved_gone(engine: Callable[[str, str], Engine]) -> None:
    assert not leftovers.cluster_is_gone(deployment(EXISTING), engine(":", ":"), variables())


@pytest.mark.parametrize("cluster", [KIND, MICROK8S, EXISTING], ids=["kind", "microk8s", "existing"])
@pytest.mark.parametrize("gone", [True, False])
@pytest.mark.parametrize("named", [True, False], ids=["there", "moved"])
def test_objects_are_given_up_for_a_proof_alone(
    monkeypatch: pytest.MonkeyPatch, cluster: dict[str, Any], gone: bool, named: bool
) -> None:
    held = deployment(cluster)
    done: list[str] = []
    monkeypatch.setattr(pulumi_cli, "deployment", lambda variables, stack: held)
    monkeypatch.setattr(container_engine, "ensure", lambda: None)
    monkeypatch.setattr(leftovers, "cluster_is_gone", lambda *asked: gone)
    monkeypatch.setattr(api_server, "problem", lambda variables, access: "no such file")
    monkeypatch.setattr(api_server, "is_named", lambda variables, access: named)
    monkeypatch.setattr(api_server, "wait", lambda variables, access: done.append(access.kubeconfig))
    monkeypatch.setattr(environment, "access", lambda stack: state.Access("/from/the/stack/file"))
    monkeypatch.setattr(
        up,
        "_pulumi",
        lambda variables, verb, **stack: done.append(f"{verb} {variables[agreed.DELETE_UNREACHABLE]}"),
    )
    up._make_sure_of_cluster({}, "dev")
    access = state.access(held)
    assert access is not None
    asked = access.kubeconfig if named else "/from/the/stack/file"
    assert done == (["refresh true"] if gone else [asked])


def test_the_users_shell_does_not_say_what_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(agreed.DELETE_UNREACHABLE, "true")
    assert agreed.DELETE_UNREACHABLE not in environment.for_child({})
    assert environment.for_child({agreed.DELETE_UNREACHABLE: "true"})[agreed.DELETE_UNREACHABLE] == "true"


@pytest.mark.parametrize("pending", [[], [{"type": "creating"}]])
def test_a_kind_cluster_is_taken_down_without_its_api_server(
    monkeypatch: pytest.MonkeyPatch, pending: list[Any]
) -> None:
    held = {**deployment(KIND), "pending_operations": pending}
    ran: list[tuple[str, ...]] = []
    monkeypatch.setattr(user_backend, "backend", lambda: None)
    monkeypatch.setattr(state, "deployment", lambda stack: held)
    monkeypatch.setattr(pulumi_cli, "edit_state", lambda variables, stack, edit: edit(held))
    monkeypatch.setattr(up, "_pulumi", lambda variables, *words, stack: ran.append(words))
    up._destroy({}, held, "dev", lambda stack: None)
    assert ran == [("destroy",)]
    assert held["pending_operations"] == []

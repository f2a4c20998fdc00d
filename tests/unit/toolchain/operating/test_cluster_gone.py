"""Only whoever owns a cluster proves that it is gone; objects leave the state for nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from infra import agreed
from infra.cluster_kinds import ClusterKind
from infra.clusters import selection
from toolchain.machine import engine as container_engine
from toolchain.operating import (
    api_server,
    environment,
    program_calls,
    pulumi_cli,
    state,
    up,
    user_backend,
)

STACK = "urn:pulumi:dev::trainstack"


def resource(kind: str, name: str, **inputs: Any) -> dict[str, Any]:
    return {"urn": f"{STACK}::{kind}::{name}", "type": kind, "inputs": inputs, "outputs": dict(inputs)}


def deployment(*clusters: dict[str, Any]) -> dict[str, Any]:
    namespace = resource("kubernetes:core/v1:Namespace", "kubeflow", metadata={"name": "kubeflow"})
    return {"resources": [*clusters, resource(agreed.PROVIDER, "dev"), namespace]}


KIND = resource(ClusterKind.KIND.resource, "trainstack-dev", config=json.dumps({"name": "trainstack-dev"}))
MICROK8S = resource(ClusterKind.MICROK8S.resource, "microk8s", kubeconfigPath="/k.yaml")
EXISTING = resource("pulumi-python:dynamic/trainstack:Run", "job", kubeconfigPath="/k.yaml", context=None)


def test_the_program_is_asked_for_each_cluster_of_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[ClusterKind, str]] = []

    def is_lost(kind: ClusterKind, props: dict[str, Any]) -> bool:
        asked.append((kind, props["id"]))
        return True

    monkeypatch.setattr(selection, "is_lost", is_lost)
    for kind in ClusterKind:
        held = deployment(*([resource(kind.resource, "c", id="c")] if kind.resource else []))
        assert program_calls.cluster_is_gone({}, held) is bool(kind.resource)
    assert asked == [(kind, "c") for kind in ClusterKind if kind.resource]


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
    monkeypatch.setattr(program_calls, "cluster_is_gone", lambda *asked: gone)
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

"""When a controller in the cluster is newer than the one that the stack brings."""

from __future__ import annotations

from typing import Any

import pytest

from infra import decision, operators
from infra.clusters.discovery import ClusterContents
from infra.config import ConfigError
from infra.config.operator import OperatorApi
from infra.objects import adoption
from infra.objects.adoption import Ownership
from infra.objects.kinds import title
from infra.objects.labels import VERSION
from infra.objects.manifest import Manifest
from infra.objects.stack_state import StackState
from infra.training_operator.plan import plan
from infra.upstream import vendored
from tests.unit.infra.objects.played_api import look
from tests.unit.infra.samples import stack

BROUGHT = "v2.3.0"
NEWER = ["v2.4.0", "v2.10.0", "v3.0.0", "v2.4.0-rc.1"]
LET = ["v2.3.0", "v2.3.1", "v2.3.0-rc.1", "v2.2.9", "v1.9.3", "v0.12.0"]
UNKNOWN = ["", "main", "2.3.0", "v2.3"]


def controller(version: str = BROUGHT) -> Manifest:
    labels = {VERSION: version} if version else {"app": "trainer"}
    return {"kind": "Deployment", "metadata": {"namespace": "kubeflow", "name": "trainer", "labels": labels}}


def ensure(*live: Manifest, brought: str = BROUGHT) -> list[str]:
    plain = {"kind": "Service", "metadata": {"namespace": "kubeflow", "name": "trainer"}}
    return decision.ensure_not_older(stack(), [plain, controller(brought)], [plain, *live])


@pytest.mark.parametrize("version", NEWER)
def test_a_newer_one_is_refused_with_the_way_on(version: str) -> None:
    text = (
        rf"(?s)trainstack:operator = \(newer in the cluster: Deployment/kubeflow/trainer {version}\).*"
        rf"allowed: in the cluster, the minor version of {BROUGHT}, which this program installs, .*"
        r"fix: use .*make down STACK=dev"
    )
    with pytest.raises(ConfigError, match=text):
        ensure(controller(version))


@pytest.mark.parametrize("version", LET)
def test_an_older_one_and_one_of_the_same_minor_version_is_updated(version: str) -> None:
    assert ensure(controller(version)) == []


@pytest.mark.parametrize("version", UNKNOWN)
def test_an_unknown_one_is_told(version: str) -> None:
    assert ensure(controller(version)) == ["Deployment/kubeflow/trainer"]
    assert ensure(controller(BROUGHT), brought="main") == ["Deployment/kubeflow/trainer"]


def test_what_is_not_there_or_not_brought_is_not_compared() -> None:
    another = {**controller("v9.0.0"), "kind": "CustomResourceDefinition"}
    assert ensure() == ensure(another) == []


def test_the_program_asks_the_cluster_about_what_its_state_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    there = controller("v2.4.0")
    owned = Ownership(StackState(objects=frozenset({title(there)})), "0" * 16, own_cluster=False)
    monkeypatch.setattr(adoption, "_live", lambda look, planned: [there])
    asking = stack(cluster={"kind": "existing"}, image={"reference": "x:1", "unpinned": True})
    with pytest.raises(ConfigError, match=r"v2\.4\.0"):
        decision.needs_two_passes(asking, look(), [controller()], owned)


@pytest.mark.parametrize(
    "operator",
    [
        {"api": "v1", "queue": "kueue"},
        {"api": "v2"},
    ],
)
def test_each_definition_and_program_that_a_stack_brings_has_its_projects_version(
    operator: dict[str, Any],
) -> None:
    known = stack(operator=operator)
    found = operators.manifests(known, plan(known, ClusterContents()))
    versions = {
        title(each): each["metadata"]["labels"].get(VERSION)
        for each in found
        if each["kind"] in vendored.VERSIONED
    }
    projects = ("trainer", "jobset") if operator["api"] == OperatorApi.V2 else ("training-operator", "kueue")
    assert set(versions.values()) == {vendored.version(each) for each in projects}, versions
    assert decision.ensure_not_older(known, found, found) == []

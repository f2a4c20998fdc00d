"""When a change of `operator.api` would take others' jobs away."""

from __future__ import annotations

from typing import Any

import pytest

from infra import other_users, removed_definitions
from infra.config import ConfigError
from infra.config.operator import OperatorApi
from infra.objects import gangs
from infra.objects.api import ApiAddress
from infra.objects.job_kinds import JOBSET, OF_API, SHARED
from infra.objects.stack_state import StackState
from tests.unit.infra.samples import stack

APIS = list(OperatorApi)


def held(api: OperatorApi) -> StackState:
    """The state of a stack that has installed the operator of `api`."""
    return StackState(objects=frozenset(f"CustomResourceDefinition/{each}" for each in OF_API[api].crds))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds that were asked about; others have one object of each."""
    found: list[str] = []

    def jobs_of(_address: Any, kinds: list[Any], own: frozenset[str]) -> list[str]:
        assert own
        found.extend(each.kind for each in kinds)
        return [f"{each.kind}/team/theirs" for each in kinds]

    monkeypatch.setattr(other_users, "jobs_of", jobs_of)
    return found


def ensure(api: OperatorApi, state: StackState, kubeconfig: str = "") -> None:
    removed_definitions.ensure_unused(stack(operator={"api": api.value}), ApiAddress(kubeconfig), state)


@pytest.mark.parametrize(("before", "after"), [APIS, APIS[::-1]])
def test_others_jobs_are_named_with_the_way_out(
    asked: list[str], before: OperatorApi, after: OperatorApi
) -> None:
    text = rf"(?s)trainstack:operator.api = .*{OF_API[before].kind}/team/theirs.*fix: let them end"
    with pytest.raises(ConfigError, match=text):
        ensure(after, held(before))
    assert asked == [each.kind for each in SHARED if each.crd in OF_API[before].crds]


def test_jobsets_go_with_trainjobs() -> None:
    assert JOBSET.crd in OF_API[OperatorApi.V2].crds


@pytest.mark.parametrize("api", APIS)
def test_definitions_that_stay_or_are_somebody_elses_are_not_asked_about(
    asked: list[str], api: OperatorApi
) -> None:
    ensure(api, held(api))
    ensure(api, StackState())
    assert asked == []


def test_nobody_is_hurt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_users, "jobs_of", lambda *_: [])
    ensure(OperatorApi.V2, held(OperatorApi.V1))


def test_a_cluster_that_is_not_there_says_nothing(asked: list[str]) -> None:
    ensure(OperatorApi.V2, held(OperatorApi.V1), kubeconfig="/nowhere/kubeconfig")
    assert asked == []


@pytest.mark.parametrize(("gang", "refused"), [("none", True), ("scheduler-plugins", False)])
def test_others_gangs_keep_the_scheduler(asked: list[str], gang: str, refused: bool) -> None:
    objects = held(OperatorApi.V1).objects | {f"CustomResourceDefinition/{each}" for each in gangs.CRDS}
    asking = stack(operator={"gang": gang})
    if refused:
        with pytest.raises(
            ConfigError, match=r"(?s)trainstack:operator.gang = .*PodGroup/team/theirs.*fix: let"
        ):
            removed_definitions.ensure_unused(asking, ApiAddress(""), StackState(objects=objects))
    else:
        removed_definitions.ensure_unused(asking, ApiAddress(""), StackState(objects=objects))
    assert asked == ([each.kind for each in gangs.KINDS] if refused else [])

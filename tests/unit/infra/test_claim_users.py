"""Whose pods mount a claim, and what makes volume objects anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra import claim_users
from infra.config import ConfigError
from infra.objects.api import ApiAddress
from infra.objects.cluster_api import ClusterApi
from tests.unit.infra.samples import stack


def pod(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}}


def test_pods_of_ours_go_with_what_made_them() -> None:
    ours = pod("job", **{"app.kubernetes.io/managed-by": "trainstack", "team": "a"})
    assert claim_users.foreign_pods([ours, pod("notebook"), {"metadata": {"name": "bare"}}]) == [
        "notebook",
        "bare",
    ]


@pytest.mark.parametrize(
    ("wanted", "live", "different"),
    [
        ({"a": 1}, {"a": 1, "filled": "in"}, False),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, True),
        ({"a": 1}, {}, True),
        ({"a": ["x"]}, {"a": ["y"]}, True),
        ({"a": {"b": 1}}, {"a": None}, True),
    ],
)
def test_only_what_we_want_is_compared(wanted: dict[str, Any], live: dict[str, Any], different: bool) -> None:
    assert claim_users.differs(wanted, live) is different


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ApiAddress:
    file = tmp_path / "kubeconfig"
    file.touch()

    monkeypatch.setattr(ClusterApi, "at", lambda *_: None)
    monkeypatch.setattr(claim_users, "_pods", lambda connection, volume: [pod("notebook")])
    return ApiAddress(str(file))


@pytest.mark.parametrize("replaced", [True, False])
def test_only_a_replacement_is_refused(
    replaced: bool, address: ApiAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_users, "_is_replaced", lambda connection, volume: replaced)
    if not replaced:
        claim_users.ensure_replaceable(stack(), address)
        return
    with pytest.raises(ConfigError, match=r"(?s)trainstack:storage.*notebook.*fix: .*delete pod notebook"):
        claim_users.ensure_replaceable(stack(), address)


def test_a_cluster_that_is_away_has_nothing_to_say(
    address: ApiAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(connection: Any, volume: Any) -> bool:
        raise ConnectionRefusedError

    monkeypatch.setattr(claim_users, "_is_replaced", refuse)
    claim_users.ensure_replaceable(stack(), address)
    claim_users.ensure_replaceable(stack(), ApiAddress("/nowhere/kubeconfig"))

"""Which volumes forget the claim that they are bound to; tests/matrix does it on a real API server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from infra import volumes
from infra.release_volumes import Releasing
from tests.unit.infra.samples import stack

OLD, NEW = "1-old", "2-new"
STACK = stack(cluster={"kind": "existing"}, image={"repository": "registry.example/trainer"})
"""It has one volume."""


class Core:
    """A volume, bound to a claim by its uid, and the claim that is there now, by its uid as well."""

    def __init__(self, phase: str, bound: tuple[str, str, str | None] | None, claim: str | None) -> None:
        reference = None
        if bound:
            reference = SimpleNamespace(namespace=bound[0], name=bound[1], uid=bound[2])
        spec, status = SimpleNamespace(claim_ref=reference), SimpleNamespace(phase=phase)
        self.volume, self.claim = SimpleNamespace(spec=spec, status=status), claim
        self.patches: list[list[dict[str, Any]]] = []

    def read_namespaced_persistent_volume_claim(self, name: str, namespace: str) -> Any:
        if self.claim is None:
            raise ApiException(status=404)
        return SimpleNamespace(metadata=SimpleNamespace(deletion_timestamp=None, uid=self.claim))

    def read_persistent_volume(self, name: str) -> Any:
        return self.volume

    def patch_persistent_volume(self, name: str, patch: list[dict[str, Any]]) -> None:
        self.patches.append(patch)


@pytest.mark.parametrize(
    ("phase", "ours", "uid", "claim", "forgets"),
    [
        ("Released", True, OLD, None, True),
        ("Released", True, OLD, NEW, True),
        ("Bound", True, OLD, None, True),
        ("Bound", True, OLD, NEW, True),
        ("Failed", True, OLD, None, True),
        ("Released", False, OLD, None, True),
        ("Bound", True, NEW, NEW, False),
        ("Bound", False, OLD, None, False),
        ("Bound", False, OLD, NEW, False),
        ("Available", True, None, None, False),
        ("Pending", True, None, NEW, False),
    ],
)
def test_a_volume_forgets_a_claim_of_before(
    phase: str, ours: bool, uid: str | None, claim: str | None, forgets: bool
) -> None:
    """Also before the controller has seen that the claim has gone, and when a claim of its name waits already."""
    (wanted,) = volumes.volumes(STACK)
    shown: list[str] = []
    releasing = Releasing(STACK, client.ApiClient(), shown.append)
    core = Core(phase, (wanted.namespace, wanted.claim if ours else "theirs", uid), claim)
    releasing.core = core  # type: ignore[assignment]
    releasing.run()
    assert len(core.patches) == len(shown) == int(forgets)
    if forgets:
        assert core.patches[0][0] == {"op": "test", "path": "/spec/claimRef/uid", "value": uid}


def test_a_volume_without_a_claim_is_left_alone() -> None:
    releasing = Releasing(STACK, client.ApiClient(), print)
    core = Core("Available", None, None)
    releasing.core = core  # type: ignore[assignment]
    releasing.run()
    assert core.patches == []

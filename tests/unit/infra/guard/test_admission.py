"""What the API server is asked to hold people to, by the stack file."""

from __future__ import annotations

from typing import Any

import pytest

from infra.guard import admission
from tests.unit.infra.samples import IMAGE, stack

GIVEN: dict[str, Any] = {"image": {"reference": IMAGE}, "storage": {"prepare": False}}
OWN = {"namespace": "team", "podSecurity": "restricted", "guard": "deny"}


def actions(**cluster: Any) -> list[str] | None:
    """Of the binding; None where there is none."""
    found = admission.manifests(stack(cluster=cluster, **GIVEN))
    return found[1]["spec"]["validationActions"] if found else None


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        ({}, ["Warn", "Audit"]),
        ({"guard": "none"}, None),
        ({"kind": "microk8s"}, ["Warn", "Audit"]),
        ({"kind": "microk8s", "channel": "1.29/stable"}, None),
        ({"kind": "microk8s", "channel": "1.30-strict/stable"}, ["Warn", "Audit"]),
        ({"kind": "existing"}, None),
        ({"kind": "existing", "guard": "warn"}, ["Warn", "Audit"]),
        (OWN, ["Deny", "Audit"]),
        ({"kind": "existing", **OWN}, ["Deny", "Audit"]),
    ],
)
def test_who_is_warned_and_who_is_refused(cluster: dict[str, Any], expected: list[str] | None) -> None:
    assert actions(**cluster) == expected


def test_stacks_of_one_namespace_or_one_name_have_policies_of_their_own() -> None:
    names = [
        admission.name(stack(name, cluster={"namespace": namespace}))
        for name in ("one", "two")
        for namespace in ("a", "b")
    ]
    assert len(set(names)) == len(names)


def test_a_stacks_own_exceptions_are_its_policys() -> None:
    given = {"reference": "trainer:latest", "unpinned": True}
    known = stack(image=given, storage={"allowedRoots": ["/srv/models"], "hostPath": "/srv/models/x"})
    written = str(admission.policy(known))
    assert "trainer:latest" in written
    assert "/srv/models/" in written
    assert "/var/lib/trainstack/" not in written

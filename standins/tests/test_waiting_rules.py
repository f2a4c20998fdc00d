"""Every kind with a rule of readiness has a case here: an object that is ready, and what keeps it from being so.

No API server: the other tests that begin with test_waiting wait for the same kinds on a real one.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from pulumi_standins.kubernetes.api_client import ApiClient
from pulumi_standins.kubernetes.awaiting.rules import RULES
from pulumi_standins.kubernetes.awaiting.snapshot import Snapshot, Verdict
from pulumi_standins.kubernetes.objects import kind_of

from standins.tests.samples import Object

UID = "uid-of-it"
# Seconds since the wait began: long enough that endpoints have settled.
NOW = 30.0


@dataclass(frozen=True)
class Case:
    """One kind.

    Parameters:
        ready: the object without apiVersion and kind, as it is when it is ready.
        lacks: (path, value) of single changes after which it is not ready; `Kind:path` changes a related object.
        related: other objects that the rule looks at.
    """

    ready: Object
    lacks: tuple[tuple[str, Any], ...]
    related: tuple[Object, ...] = ()


def conditions(*true: str, **reasons: str) -> list[Object]:
    return [{"type": each, "status": "True", "reason": reasons.get(each, "")} for each in true]


def counts(number: int, *names: str) -> Object:
    return dict.fromkeys(names, number)


def named(api_version: str, kind: str, **fields: Any) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "it"}, **fields}


REPLICA_SET = named("apps/v1", "ReplicaSet", spec={"replicas": 2}, status={"readyReplicas": 2})
REPLICA_SET["metadata"] |= {
    "annotations": {"deployment.kubernetes.io/revision": "1"},
    "ownerReferences": [{"uid": UID}],
}
ENDPOINTS = named("v1", "Endpoints", subsets=[{"addresses": [{"ip": "192.0.2.1"}]}])
ADDRESS = {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}
BACKEND = {"path": "/x", "backend": {"service": {"name": "it"}}}
CLAIM_OF_TEMPLATE = {"template": {"spec": {"volumes": [{"persistentVolumeClaim": {"claimName": "it"}}]}}}

CASES = {
    "apiextensions.k8s.io/v1/CustomResourceDefinition": Case(
        {"status": {"conditions": conditions("NamesAccepted", "Established")}},
        (("status", {}), ("status.conditions", conditions("NamesAccepted"))),
    ),
    "apps/v1/DaemonSet": Case(
        {
            "metadata": {"generation": 2},
            "status": {
                "observedGeneration": 2,
                "desiredNumberScheduled": 2,
                **counts(
                    2, "currentNumberScheduled", "updatedNumberScheduled", "numberAvailable", "numberReady"
                ),
            },
        },
        (
            ("status", {}),
            ("status.observedGeneration", 1),
            ("status.desiredNumberScheduled", None),
            ("status.currentNumberScheduled", 1),
            ("status.updatedNumberScheduled", 1),
            ("status.numberAvailable", 1),
            ("status.numberReady", 1),
        ),
    ),
    "apps/v1/Deployment": Case(
        {
            "metadata": {"generation": 1, "annotations": {"deployment.kubernetes.io/revision": "1"}},
            "spec": CLAIM_OF_TEMPLATE,
            "status": {
                "observedGeneration": 1,
                "conditions": conditions("Available", "Progressing", Progressing="NewReplicaSetAvailable"),
            },
        },
        (
            ("status", {}),
            ("status.observedGeneration", 0),
            ("status.conditions", conditions("Progressing")),
            ("metadata.annotations", {}),
            ("ReplicaSet:status.readyReplicas", 1),
            ("ReplicaSet:metadata.ownerReferences", []),
            ("PersistentVolumeClaim:status.phase", "Pending"),
        ),
        (REPLICA_SET, named("v1", "PersistentVolumeClaim", status={"phase": "Bound"})),
    ),
    "apps/v1/StatefulSet": Case(
        {
            "metadata": {"generation": 2},
            "spec": {"replicas": 2},
            "status": {
                "observedGeneration": 2,
                **counts(2, "replicas", "readyReplicas", "currentReplicas", "updatedReplicas"),
                "currentRevision": "second",
                "updateRevision": "second",
            },
        },
        (
            ("status", {}),
            ("status.observedGeneration", 1),
            ("status.replicas", 3),
            ("status.readyReplicas", 1),
            ("status.currentReplicas", 1),
            ("status.currentRevision", "first"),
        ),
    ),
    "batch/v1/Job": Case(
        {"status": {"startTime": "2026-01-01T00:00:00Z", "conditions": conditions("Complete")}},
        (("status", {}), ("status.conditions", []), ("status.conditions", conditions("Suspended"))),
    ),
    "networking.k8s.io/v1/Ingress": Case(
        {"spec": {"rules": [{"http": {"paths": [BACKEND]}}]}, "status": ADDRESS},
        (("status", {}), ("Endpoints:metadata.name", "another")),
        (ENDPOINTS,),
    ),
    "v1/PersistentVolume": Case(
        {"status": {"phase": "Available"}},
        (
            ("status", {}),
            ("status.phase", "Pending"),
            ("status.phase", "Released"),
            ("status.phase", "Failed"),
        ),
    ),
    "v1/PersistentVolumeClaim": Case(
        {"status": {"phase": "Bound"}},
        (("status", {}), ("status.phase", "Pending"), ("status.phase", "Lost")),
    ),
    "v1/Pod": Case(
        {"status": {"phase": "Running", "conditions": conditions("PodScheduled", "Initialized", "Ready")}},
        (
            ("status", {}),
            ("status.conditions", conditions("Initialized", "Ready")),
            ("status.conditions", conditions("PodScheduled", "Ready")),
            ("status.conditions", conditions("PodScheduled", "Initialized")),
        ),
    ),
    "v1/ReplicationController": Case(
        {
            "metadata": {"generation": 2},
            "spec": {"replicas": 2},
            "status": {"observedGeneration": 2, "availableReplicas": 2},
        },
        (("status", {}), ("status.observedGeneration", 1), ("status.availableReplicas", 1)),
    ),
    "v1/ResourceQuota": Case(
        {"spec": {"hard": {"pods": "10"}}, "status": {"hard": {"pods": "10"}}},
        (("status", {}), ("status.hard", {"pods": "9"})),
    ),
    "v1/Secret": Case(
        {"type": "kubernetes.io/service-account-token", "data": {"token": "x"}},
        (("data", {}), ("data", None)),
    ),
    "v1/Service": Case(
        {"spec": {"type": "LoadBalancer"}, "status": ADDRESS},
        (("status", {}), ("Endpoints:subsets", []), ("Endpoints:metadata.name", "another")),
        (ENDPOINTS,),
    ),
}
LACKS = [(kind, *lack) for kind, case in CASES.items() for lack in case.lacks]
HOPELESS = {
    "apiextensions.k8s.io/v1/CustomResourceDefinition": "NamesAccepted",
    "batch/v1/Job": "Failed",
}
"""Kinds whose wait may end before its time, and the condition that ends it."""


def judged(kind: str, path: str = "", value: Any = None) -> Verdict:
    """The rule's verdict on the case of `kind`, with one value changed where a path says which."""
    case = CASES[kind]
    api_version, _, name = kind.rpartition("/")
    given = copy.deepcopy(case.ready)
    seen = {**named(api_version, name), **given}
    seen["metadata"] = {"name": "it", "uid": UID, **given.get("metadata", {})}
    related = copy.deepcopy(case.related)
    if path:
        whose, _, keys = path.rpartition(":")
        target = next(each for each in (seen, *related) if each["kind"] == (whose or name))
        *outer, last = keys.split(".")
        for key in outer:
            target = target[key]
        target[last] = value
    watched: dict[Any, dict[str, Object]] = {}
    for number, each in enumerate(related):
        watched.setdefault(kind_of(each), {})[str(number)] = each
    nobody = cast(ApiClient, None)  # no case needs another look
    return RULES[kind].judge(Snapshot(seen, nobody, watched, now=NOW))


def test_every_rule_has_a_case() -> None:
    assert CASES.keys() == RULES.keys(), "add a case for the kind whose rule is new"


def test_every_kind_is_on_the_page() -> None:
    page = (Path(__file__).parents[1] / "docs" / "behaviour.md").read_text()
    rows = [line for line in page.splitlines() if "see *waits* below" in line]
    assert [kind for kind in RULES if kind.rpartition("/")[2] not in re.findall(r"\w+", " ".join(rows))] == []


@pytest.mark.parametrize("kind", CASES)
def test_the_rule_watches_what_its_case_looks_at(kind: str) -> None:
    assert {kind_of(each) for each in CASES[kind].related} <= set(RULES[kind].related)


@pytest.mark.parametrize("kind", CASES)
def test_an_object_that_has_everything_is_ready(kind: str) -> None:
    assert judged(kind).is_ready


@pytest.mark.parametrize(("kind", "path", "value"), LACKS)
def test_an_object_that_lacks_one_thing_is_not_ready_and_says_why(kind: str, path: str, value: Any) -> None:
    verdict = judged(kind, path, value)
    assert (verdict.is_ready, verdict.is_hopeless) == (False, False)
    assert verdict.status or verdict.findings


@pytest.mark.parametrize(("kind", "condition"), HOPELESS.items())
def test_what_cannot_become_ready_ends_the_wait(kind: str, condition: str) -> None:
    status = "False" if condition == "NamesAccepted" else "True"
    entry = {"type": condition, "status": status, "reason": "Why", "message": "because"}
    verdict = judged(kind, "status.conditions", [entry])
    assert verdict.is_hopeless
    assert "[Why] because" in verdict.findings


@pytest.mark.parametrize("kind", [kind for kind in CASES if kind not in HOPELESS])
def test_no_other_wait_ends_before_its_time(kind: str) -> None:
    failed = [{"type": each, "status": "False", "reason": "Why"} for each in ("Ready", "Available", "Failed")]
    assert not judged(kind, "status", {"phase": "Failed", "conditions": failed}).is_hopeless

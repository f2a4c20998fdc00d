"""Ours held to the table of what Pulumi's own plugin waits for: `data/await_cases.yaml`, a row for each branch.

No API server: the other tests that begin with test_waiting wait for the same kinds on a real one.
"""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from pulumi_standins.kubernetes.api_client import ApiClient
from pulumi_standins.kubernetes.awaiting import wait_for
from pulumi_standins.kubernetes.awaiting.rules import RULES
from pulumi_standins.kubernetes.awaiting.snapshot import Rule, Snapshot, Verdict
from pulumi_standins.kubernetes.errors import ApiError
from pulumi_standins.kubernetes.objects import Kind, kind_of

from standins.tests.samples import Object

TABLE = yaml.safe_load((Path(__file__).parent / "data" / "await_cases.yaml").read_text())
ROWS, WAIT_FOR = TABLE["rows"], TABLE["wait_for"]
JUDGED = [row for row in WAIT_FOR if "then" in row]
REFUSED = [row for row in WAIT_FOR if "refused" in row]
UID = "uid-of-it"
# Kinds of ours that the real plugin does not wait for.
OURS = {"apiextensions.k8s.io/v1/CustomResourceDefinition"}


def seen(kind: str, fields: Object) -> Object:
    api_version, _, name = kind.rpartition("/")
    whole = {"apiVersion": api_version, "kind": name, **copy.deepcopy(fields)}
    return {**whole, "metadata": {"name": "it", "uid": UID, **whole.get("metadata", {})}}


class Cluster:
    """Answers the rare rule that asks for another object."""

    def __init__(self, objects: list[Object]) -> None:
        self._objects = objects

    def get(self, kind: Kind, _namespace: str, name: str) -> Object:
        for each in self._objects:
            if kind_of(each) == kind and each["metadata"]["name"] == name:
                return each
        raise ApiError(404, {"kind": "Status", "reason": "NotFound", "message": "not found"})


def judged(rule: Rule, obj: Object, row: Object) -> Verdict:
    related = [seen(str(kind_of(each)), each) for each in row.get("related", [])]
    watched: dict[Kind, dict[str, Object]] = {}
    for number, each in enumerate(related):
        watched.setdefault(kind_of(each), {})[str(number)] = each
    look, quiet = row.get("look", "wait"), float(row.get("quiet", 0))
    snapshot = Snapshot(obj, cast(ApiClient, Cluster(related)), watched, now=quiet)
    snapshot.is_single_look, snapshot.is_last_look = look == "refresh", look == "last"
    return rule.judge(snapshot)


def outcome(verdict: Verdict) -> str:
    return "ready" if verdict.is_ready else "failed" if verdict.is_hopeless else "waiting"


def assert_says(verdict: Verdict, row: Object) -> None:
    lines = [verdict.status, *verdict.warnings, *verdict.findings]
    assert [part for part in row.get("says", []) if not any(part in line for line in lines)] == [], lines


def test_every_awaited_kind_has_rows_and_a_rule() -> None:
    awaited = {kind for kind, how in TABLE["kinds"].items() if how == "awaited"}
    assert awaited == {row["kind"] for row in ROWS}
    assert awaited | OURS == RULES.keys(), "add rows for the kind whose rule is new"


@pytest.mark.parametrize(
    "row", ROWS, ids=[f"{row['kind'].rpartition('/')[2]}: {row['case']}" for row in ROWS]
)
def test_a_kind_is_ready_as_there(row: Object) -> None:
    verdict = judged(RULES[row["kind"]], seen(row["kind"], row["object"]), row)
    assert outcome(verdict) == row.get("ours", row)["then"]
    assert_says(verdict, row)


@pytest.mark.parametrize("row", JUDGED, ids=[f"{row['on']} on {row['object']}" for row in JUDGED])
def test_wait_for_is_satisfied_as_there(row: Object) -> None:
    verdict = judged(wait_for.rule(row["on"]), seen("v1/ConfigMap", row["object"]), row)
    assert outcome(verdict) == row["then"]
    assert_says(verdict, row)


@pytest.mark.parametrize("row", REFUSED, ids=[row["on"] for row in REFUSED])
def test_a_wait_for_that_cannot_be_read_is_refused_as_there(row: Object) -> None:
    with pytest.raises(ValueError, match=re.escape(row["refused"])):
        wait_for.rule(row["on"])


@pytest.mark.parametrize(
    ("conditions", "then"),
    [
        ({}, "waiting"),
        ({"NamesAccepted": "True"}, "waiting"),
        ({"NamesAccepted": "True", "Established": "True"}, "ready"),
        ({"NamesAccepted": "False"}, "failed"),
    ],
)
def test_a_definition_is_waited_for_as_well(conditions: dict[str, str], then: str) -> None:
    """Its kinds are served at once then; the real plugin finds them seconds later."""
    why = {"reason": "Why", "message": "so"}
    entries = [{"type": name, "status": status, **why} for name, status in conditions.items()]
    (kind,) = OURS
    verdict = judged(RULES[kind], seen(kind, {"status": {"conditions": entries}}), {})
    assert outcome(verdict) == then
    assert verdict.is_ready or any("[Why] so" in line or "Waiting" in line for line in verdict.findings)


def test_every_difference_is_on_the_page() -> None:
    page = (Path(__file__).parents[1] / "docs" / "behaviour.md").read_text()
    differences: list[Any] = [row["ours"]["why"] for row in ROWS if "ours" in row]
    assert [why for why in differences if why not in " ".join(page.split())] == []

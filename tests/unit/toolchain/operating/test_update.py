"""`make up` runs Pulumi again after doing what the program asked for, and not for ever."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from infra import agreed
from toolchain.operating import environment, pulumi_output, update
from toolchain.steps import SetupError

Round = tuple[int, dict[str, Any] | None]


class Pulumi:
    """Answers each round as given: exit status, and what the program writes."""

    def __init__(self, *rounds: Round) -> None:
        self.rounds = list(rounds)
        self.ran: list[tuple[str, ...]] = []
        self.dropping: list[bool] = []

    def up(self, variables: Mapping[str, str], *options: str) -> int:
        status, asked = self.rounds[len(self.ran)]
        self.ran.append(options)
        self.dropping.append(variables.get(agreed.DELETE_UNREACHABLE) == "true")
        if asked is not None:
            Path(variables[agreed.LOST_OBJECTS]).write_text(json.dumps(asked))
        return status


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []
    monkeypatch.setattr(update, "_adopt_lost", lambda variables, stack, lost: found.extend(lost))
    return found


def test_once_where_nothing_is_asked(taken: list[Any]) -> None:
    pulumi = Pulumi((0, None))
    update.update({}, "dev", pulumi.up, lambda: False)
    assert pulumi.ran == [("--refresh",)]
    assert taken == []


def test_lost_objects_are_taken_up_and_pulumi_runs_again(taken: list[Any]) -> None:
    pulumi = Pulumi((255, {"objects": [{"kind": "Namespace"}]}), (0, None))
    update.update({}, "dev", pulumi.up, lambda: False)
    assert taken == [{"kind": "Namespace"}]
    assert pulumi.ran == [("--refresh",)] * 2


def test_a_lost_state_takes_three_rounds(taken: list[Any]) -> None:
    pulumi = Pulumi((0, {"objects": []}), (255, {"objects": [{"kind": "Namespace"}]}), (0, None))
    update.update({}, "dev", pulumi.up, lambda: False)
    assert len(pulumi.ran) == 3


def test_only_the_round_that_replaces_a_cluster_drops_its_objects(taken: list[Any]) -> None:
    pulumi = Pulumi((255, {"replaced": "trainstack-dev"}), (0, None))
    update.update({}, "dev", pulumi.up, lambda: False)
    assert pulumi.ran == [("--refresh",), ()]
    assert pulumi.dropping == [False, True]


@pytest.mark.parametrize(
    ("rounds", "runs"),
    [
        ([(1, None)], 1),
        ([(1, {"objects": []})], 1),
        ([(255, {"objects": [{}]}), (1, None)], 2),
        ([(255, {"objects": [{}]})] * update.ROUNDS, update.ROUNDS),
    ],
)
def test_a_failure_ends_it(taken: list[Any], rounds: list[Round], runs: int) -> None:
    pulumi = Pulumi(*rounds)
    with pytest.raises(SetupError, match="failed"):
        update.update({}, "dev", pulumi.up, lambda: False)
    assert len(pulumi.ran) == runs


def test_a_failure_that_can_be_mended_is_tried_again(taken: list[Any]) -> None:
    pulumi = Pulumi((1, None), (0, None))
    update.update({}, "dev", pulumi.up, lambda: True)
    assert pulumi.ran == [("--refresh",)] * 2


BAD, WORSE = "urn:1", "urn:2"
NOTHING: dict[str, str] = {}


@pytest.mark.parametrize(
    ("rounds", "failed", "options", "said"),
    [
        ([1, 0], [{BAD: "bad"}, NOTHING], [(BAD,)], r"for job bad;"),
        (
            [1, 1, 0],
            [{BAD: "bad"}, {WORSE: "worse"}, NOTHING],
            [(BAD,), (BAD, WORSE)],
            "for jobs bad, worse;",
        ),
        ([1, 1], [{BAD: "bad"}, {BAD: "bad"}], [(BAD,)], r"failed \(1\)"),
        ([1, 1], [{BAD: "bad"}, NOTHING], [(BAD,)], r"failed \(1\)"),
        ([1], [NOTHING], [], r"failed \(1\)"),
        ([1] * 9 + [0], [{str(n): "a"} for n in range(9)], None, "for job a;"),
    ],
)
def test_a_job_that_fails_is_left_out_of_the_next_round(
    monkeypatch: pytest.MonkeyPatch,
    rounds: list[int],
    failed: list[dict[str, str]],
    options: list[tuple[str, ...]] | None,
    said: str,
) -> None:
    """A refresh would not know the name of what Pulumi has not made."""
    pulumi = Pulumi(*((status, None) for status in rounds))
    monkeypatch.setattr(pulumi_output, "failed_jobs", lambda: failed[len(pulumi.ran) - 1])
    with pytest.raises(SetupError, match=said):
        update.update({}, "dev", pulumi.up, lambda: False)
    assert len(pulumi.ran) == len(rounds)
    assert pulumi.ran[0] == ("--refresh",)
    for ran, urns in zip(pulumi.ran[1:], options or [], strict=options is not None):
        assert ran == ("--exclude-dependents", *(word for urn in urns for word in ("--exclude", urn)))


def test_what_fails_is_not_left_out_where_it_can_be_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    pulumi = Pulumi((1, None), (0, None))
    monkeypatch.setattr(pulumi_output, "failed_jobs", lambda: {BAD: "bad"})
    update.update({}, "dev", pulumi.up, lambda: True)
    assert pulumi.ran == [("--refresh",)] * 2


@pytest.mark.parametrize("given", ["0123", "0123456789ABCDEF", "x" * 16])
def test_what_is_no_owners_id_is_refused_before_anything_is_set_up(given: str) -> None:
    with pytest.raises(SetupError, match="make status"):
        update.hand_on_consents(given, "")


def test_consents_reach_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (agreed.ADOPT, agreed.REPLACE_CLUSTER):
        monkeypatch.setenv(name, "before")
    update.hand_on_consents("", "")
    assert environment.for_child({})[agreed.ADOPT] == "before"
    update.hand_on_consents("0123456789abcdef", "yes")
    passed = environment.for_child({})
    assert (passed[agreed.ADOPT], passed[agreed.REPLACE_CLUSTER]) == ("0123456789abcdef", "yes")

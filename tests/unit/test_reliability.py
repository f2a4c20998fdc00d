"""The page of the table of faults: its rows have tests, and it says what the records say."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from tests.faults.table import background, page, records
from tests.faults.table.records import Record
from tests.faults.table.rows import OF_A_JOB, ROWS, WORDS, Row, Way, way_of
from tests.faults.table.trial import each_way, of_each_way

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "docs" / "reliability.jsonl"


def record(row: str, phase: str = "", survived: bool = True, seconds: float | None = 2.0) -> Record:
    return Record(
        row, f"test[{row}]", phase, survived, seconds, "2026-11-22", "abcdef0", "a processor, 2 cores"
    )


def test_the_page_says_what_the_records_say() -> None:
    assert page.place(FILE).read_text() == page.render(records.read(FILE))


def keys(function: object) -> Iterator[str]:
    """The rows that a test's markers name, those of its parameters included."""
    for mark in getattr(function, "pytestmark", []):
        if mark.name == "row":
            yield str(mark.args[0])
        for value in mark.args[1] if mark.name == "parametrize" else []:
            yield from (str(each.args[0]) for each in getattr(value, "marks", []) if each.name == "row")


def test_every_row_has_a_test_and_every_test_a_row() -> None:
    files = [*ROOT.glob("tests/faults/**/test_*.py"), ROOT / "tests" / "e2e" / "test_repair.py"]
    names = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files]
    found = {key for name in names for each in vars(import_module(name)).values() for key in keys(each)}
    assert found == ROWS.keys()


def test_a_fault_of_a_job_is_tried_in_every_way_under_ids_that_no_record_loses() -> None:
    for way in WORDS:
        assert {row.section for key, row in ROWS.items() if way_of(key) is way} == {*OF_A_JOB}
    found = {each.id: each.values for each in of_each_way(["clock-jumps", "cluster-deleted"])}
    assert found == {
        "clock-jumps": (Way.PYTORCHJOB, "clock-jumps"),
        "cluster-deleted": (Way.PYTORCHJOB, "cluster-deleted"),
        "clock-jumps-v2": (Way.TRAINJOB, "clock-jumps"),
        "clock-jumps-kueue": (Way.KUEUE, "clock-jumps"),
    }
    assert [each.id for each in each_way("clock-jumps")] == [pytest.HIDDEN_PARAM, "v2", "kueue"]


def test_every_record_belongs_to_a_row() -> None:
    assert {each.row for each in records.read(FILE)} <= ROWS.keys()


def test_a_torn_last_line_costs_one_try(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    first, second = record("worker-killed"), record("worker-deleted")
    records.add(file, first)
    records.add(file, second)
    file.write_text(file.read_text()[:-20])
    assert records.read(file) == [first]
    records.add(file, second)
    assert records.read(file) == [first, second]


def test_a_row_measured_anew_loses_its_tries_alone(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    for row in ("worker-killed", "worker-deleted"):
        records.add(file, record(row))
    records.keep(file, lambda each: each.row != "worker-killed")
    assert [each.row for each in records.read(file)] == ["worker-deleted"]


def test_a_try_that_was_not_survived_stays_in_sight() -> None:
    line = page.render([record("etcd-killed", survived=False, seconds=None), record("etcd-killed")])
    assert "| etcd killed with -9 | 2 | **1** |" in line
    assert "2 tries, 1 survived. Complete are 1 of" in line


@pytest.mark.parametrize(
    ("made", "lacks"),
    [
        ([], "not measured yet"),
        ([record("r", "a")], "1 tries are missing"),
        ([record("r", "a"), record("r", "a")], "not hit: b"),
        ([record("r", "a"), record("r", "b")], ""),
    ],
)
def test_a_row_is_complete_when_each_phase_was_hit(made: list[Record], lacks: str) -> None:
    assert page.missing("r", Row("section", "fault", 2, ("a", "b")), made) == lacks


SAID = """\
 ✓ node image (0.4 s)
 ✓ checking the volumes (13.6 s)
Updating (dev):
 ~  trainstack:operator:Operator dev-operator refreshing (0s)
    pulumi:pulumi:Stack trainstack-dev running
    pulumi:pulumi:Stack trainstack-dev running warning: using pulumi-resource-kubernetes from $PATH
 +  trainstack:operator:Operator dev-operator creating (0s)
 +  pulumi-python:dynamic/trainstack:KindCluster faults-dev creating (0s)
 +  pulumi-python:dynamic/trainstack:BuiltImage dev creating (0s)
 +  pulumi-python:dynamic/trainstack:KindCluster faults-dev created (20s)
 +  pulumi-python:dynamic/trainstack:RegistryImage dev-operator creating (0s)
    pulumi:pulumi:Stack trainstack-dev running warning: the API server answers again after 9 s
 +  kubernetes:apps/v1:Deployment Deployment/kubeflow/training-operator creating (0s)
 -- kubernetes:kubeflow.org/v1:PyTorchJob PyTorchJob/pytorch-simple deleting original (0s)
 ++ pulumi-python:dynamic/trainstack:Run pytorch-simple creating replacement (0s) [diff: ~run,uid]
 ✓ pulumi up (70.1 s)
   13.6 s  checking the volumes
Destroying (dev):
"""


def test_phases_are_told_by_the_latest_line() -> None:
    """Lines of a real `make up` and `make down`, one phase after the other."""
    asked = [
        "set-up",
        "refresh",
        "update",
        "cluster",
        "image",
        "operator",
        "job",
        "wait",
        "last look",
        "destroy",
    ]
    assert background.phases(SAID) == asked


def test_the_cluster_is_worked_on_until_it_is_made() -> None:
    half = SAID.partition(" +  pulumi-python:dynamic/trainstack:KindCluster faults-dev created")[0]
    assert background.phases(half)[-1] == "cluster"

"""The groups of tests that share something: which there are, and who begins."""

from __future__ import annotations

from itertools import groupby

import pytest

from tests import order
from toolchain.paths import ROOT


def test_each_name_of_the_tables_is_a_file_or_a_folder() -> None:
    named = [*order.GROUPS, *order.FIRST, *order.LAST]
    assert [name for name in named if not (order.TESTS / name).exists()] == []


def test_each_group_has_a_place() -> None:
    assert sorted(order.LONGEST_FIRST) == sorted(set(order.GROUPS.values()) - {""})


@pytest.mark.parametrize(
    ("file", "group"),
    [
        ("tests/e2e/test_over_runs.py", "cluster"),
        ("tests/e2e/test_sweep.py", "clones"),
        ("tests/faults/test_interrupted.py", "cluster"),
        ("tests/faults/test_bad_input.py", ""),
        ("tests/faults/table/test_reasons.py", "table"),
        ("tests/faults/table/test_volume.py", "disks"),
        ("tests/faults/table/test_make_killed.py", "kills"),
        ("tests/matrix/test_guard.py", ""),
        ("standins/tests/test_kinds.py", ""),
    ],
)
def test_the_nearest_name_gives_the_group(file: str, group: str) -> None:
    assert order.group(ROOT / file) == group


def test_groups_come_first_and_single_tests_last() -> None:
    files = [ROOT / name for name in ("standins/tests/test_kinds.py", *map("tests/{}".format, order.GROUPS))]
    groups = [order.group(each) for each in sorted(files, key=order.place)]
    assert list(dict.fromkeys(groups)) == [*order.LONGEST_FIRST, ""]


def test_the_tests_of_a_group_are_one_unit_and_those_of_no_folder_a_unit_each() -> None:
    cluster = ["tests/e2e/test_over_runs.py::test_a", "tests/faults/test_refusals.py::test_b[x]"]
    single = ["standins/tests/test_kinds.py::test_c[1]", "standins/tests/test_kinds.py::test_c[2]"]
    assert order.units([*cluster, *single]) == {
        **dict.fromkeys(cluster, "cluster"),
        **{each: each for each in single},
    }


@pytest.mark.parametrize("count", [1, order.LONGEST_UNIT, order.LONGEST_UNIT + 1, 3 * order.LONGEST_UNIT + 1])
def test_a_file_of_many_tests_is_parted_into_runs_of_about_the_same_length(count: int) -> None:
    tests = [f"tests/matrix/test_guard.py::test_a[{number}]" for number in range(count)]
    runs = [len(list(run)) for _, run in groupby(order.units(tests).values())]
    assert len(runs) == len(set(order.units(tests).values())), "each is one run"
    assert max(runs) <= order.LONGEST_UNIT
    assert max(runs) - min(runs) <= 1

"""The groups of tests that share something: which there are, and who begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import order

ROOT = Path(__file__).resolve().parents[2]


def test_each_name_of_the_tables_is_a_file_or_a_folder() -> None:
    named = [*order.GROUPS, *order.FIRST, *order.LAST]
    assert [name for name in named if not (order.TESTS / name).exists()] == []


def test_each_group_has_a_place() -> None:
    assert sorted(order.LONGEST_FIRST) == sorted(set(order.GROUPS.values()) - {""})


@pytest.mark.parametrize(
    ("file", "group"),
    [
        ("tests/e2e/test_use.py", "cluster"),
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

"""Which tests share what, and in which order: everything else may run beside them, in any order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

TESTS = Path(__file__).resolve().parent

CLONES = [
    "e2e/test_data_page.py",
    "e2e/test_examples.py",
    "e2e/test_guarded_namespace.py",
    "e2e/test_newcomers.py",
    "e2e/test_own_project_page.py",
    "e2e/test_review_page.py",
    "e2e/test_stacks.py",
    "e2e/test_sweep.py",
    "e2e/test_torchrun.py",
    "faults/test_engine_killed.py",
]
OPERATORS = [
    "e2e/test_kubeflow_clients.py",
    "e2e/test_takeover.py",
    "e2e/test_trainer_v2.py",
]
DISKS = [
    "e2e/test_storage_kinds.py",
    "faults/table/test_disk_full.py",
    "faults/table/test_volume.py",
]
MACHINES = [
    "e2e/test_bare_systems.py",
    "faults/table/test_machine_inside.py",
]
# Of the tests that share a cluster, those that need nothing which the others leave behind.
KILLS = [
    "faults/table/test_api_server.py",
    "faults/table/test_make_killed.py",
    "faults/table/test_together.py",
]
TRAININGS = [
    "e2e/test_kueue.py",
    "e2e/test_gitops.py",
    "e2e/test_job_behaviours.py",
    "e2e/test_nfs.py",
    "e2e/test_planted_words.py",
    "e2e/test_published.py",
]

# One process of pytest runs a group, one test after the other. Those of `cluster`, `kills`, `trainings` and `table`
# share a clone with its cluster, each group one of its own; those of `image` the trainer image and the cores that its
# trainings take; those of `matrix` have a clone of their own. Those of `clones`, `operators`, `disks` and `machines`
# bring up clusters of their own, one after the other for the sake of the machine: `operators` those that have another
# operator than ours, `machines` those that make every image anew in an engine of their own. Of all these, `make test`
# runs `cluster`, `image` and, of `clones`, what needs no cluster; `table` and `kills` are `make reliability`'s alone.
GROUPS = {
    "faults": "cluster",
    "faults/table": "table",
    "e2e": "cluster",
    "runbooks": "cluster",
    "trainer": "image",
    "e2e/test_repository.py": "image",
    "e2e/test_leftovers.py": "image",
    "faults/test_bad_input.py": "",
    "faults/table/test_saves.py": "image",
    "matrix/test_on_kind.py": "matrix",
    **dict.fromkeys(CLONES, "clones"),
    **dict.fromkeys(OPERATORS, "operators"),
    **dict.fromkeys(DISKS, "disks"),
    **dict.fromkeys(MACHINES, "machines"),
    **dict.fromkeys(KILLS, "kills"),
    **dict.fromkeys(TRAININGS, "trainings"),
}

# The first ones begin at once, each in a process of its own, so that none of the long ones is left for the end.
LONGEST_FIRST = [
    "clones",
    "cluster",
    "trainings",
    "matrix",
    "operators",
    "machines",
    "image",
    "disks",
    "table",
    "kills",
]

# What a module's fixtures stand up there - a stack, definitions, a container - would stand up in each process that has
# one of the module's tests.
WHOLE_FILES = ["browser", "matrix", "monitoring"]
"""Folders in which one process runs the tests of a file, LONGEST_UNIT of them at most."""

LONGEST_UNIT = 45
"""A file with more tests is parted evenly, and each part stands everything up anew. `make test-full` has two such."""

CHAIN = "cluster"
"""The group that takes longest in `make test`: what runs beside it makes way for it."""

WITH_DATA = "cluster"
"""The group whose first tests train on a real data set, where there is one."""

FIRST = [
    "faults/test_refusals.py",  # nothing is up yet
    "faults/test_interrupted.py",  # brings the stack up
    "e2e/test_main_job.py",  # real data, where there are any
    "e2e/test_rendering.py",  # the same, as it stands
    "e2e/test_digits.py",  # takes them away
]
LAST = [
    "e2e/test_over_runs.py",  # leaves the job of another seed
    "runbooks/test_runbooks.py",  # leave the stack as the next one expects it
    "e2e/test_tutorial.py",  # takes the stack down
]


def group(path: Path) -> str:
    """The group of the tests in the file `path`; empty where they are in none."""
    name = Path(_name(path))
    return next((GROUPS[each.as_posix()] for each in (name, *name.parents) if each.as_posix() in GROUPS), "")


def units(tests: Sequence[str]) -> dict[str, str]:
    """By the ids of the tests, in their order, what each is part of: one process of pytest runs a unit as a whole."""
    found = {}
    for file, of_file in groupby(tests, key=lambda test: test.partition("::")[0]):
        path, its = TESTS.parent / file, list(of_file)
        name, of_group, parts = _name(path), group(path), -(-len(its) // LONGEST_UNIT)
        is_whole = name.partition("/")[0] in WHOLE_FILES
        for number, test in enumerate(its):
            found[test] = of_group or (f"{name} {number * parts // len(its)}" if is_whole else test)
    return found


def place(path: Path) -> tuple[int, int]:
    """Key to sort by: the longest group first, single tests last; within a group as a stack's life goes."""
    name, found = _name(path), group(path)
    among_groups = LONGEST_FIRST.index(found) if found else len(LONGEST_FIRST)
    if name in FIRST:
        return among_groups, FIRST.index(name)
    return among_groups, len(FIRST) + (1 + LAST.index(name) if name in LAST else 0)


def _name(path: Path) -> str:
    return path.relative_to(TESTS).as_posix() if path.is_relative_to(TESTS) else ""

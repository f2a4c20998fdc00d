"""Which tests share what, and in which order: everything else may run beside them, in any order."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).resolve().parent

CLONES = [
    "e2e/test_examples.py",
    "e2e/test_guarded_namespace.py",
    "e2e/test_kubeflow_clients.py",
    "e2e/test_own_project_page.py",
    "e2e/test_review_page.py",
    "e2e/test_stacks.py",
    "e2e/test_storage_kinds.py",
    "e2e/test_sweep.py",
    "e2e/test_takeover.py",
    "e2e/test_torchrun.py",
    "e2e/test_trainer_v2.py",
    "e2e/test_tutorial.py",
    "faults/test_engine_killed.py",
    "faults/table/test_disk_full.py",
    "faults/table/test_volume.py",
]
MACHINES = [
    "e2e/test_bare_systems.py",
    "faults/table/test_machine_inside.py",
]

# One process of pytest runs a group, one test after the other: those of `cluster` share a clone with its cluster,
# those of `image` the trainer image and the cores that its trainings take, those of `matrix` a clone of their own, and
# those of `clones` and `machines` bring up clusters of their own, one after the other for the sake of the machine:
# `machines` those that make every image anew in an engine of their own, and take as long as all the others.
GROUPS = {
    "faults": "cluster",
    "e2e": "cluster",
    "runbooks": "cluster",
    "trainer": "image",
    "e2e/test_repository.py": "image",
    "e2e/test_leftovers.py": "image",
    "faults/test_bad_input.py": "",
    "faults/table/test_saves.py": "image",
    "matrix/test_on_kind.py": "matrix",
    **dict.fromkeys(CLONES, "clones"),
    **dict.fromkeys(MACHINES, "machines"),
}

FIRST = [
    "faults/test_refusals.py",  # nothing is up yet
    "faults/test_interrupted.py",  # brings the stack up
    "e2e/test_main_job.py",  # real data, where there are any
    "e2e/test_rendering.py",  # the same, as it stands
    "e2e/test_digits.py",  # takes them away
]
LAST = [
    "runbooks/test_runbooks.py",
    "e2e/test_repair.py",  # deletes the cluster
    "e2e/test_down.py",
]


def group(path: Path) -> str:
    """The group of the tests in the file `path`; empty where they are in none."""
    name = _name(path)
    return GROUPS.get(name, GROUPS.get(name.partition("/")[0], ""))


def place(path: Path) -> int:
    """Key to sort by: tests outside groups first, as they are quick; within `cluster` as the stack's life goes."""
    name = _name(path)
    if group(path) != "cluster":
        return -1 if group(path) else -2
    if name in FIRST:
        return FIRST.index(name)
    return len(FIRST) + (1 + LAST.index(name) if name in LAST else 0)


def _name(path: Path) -> str:
    return path.relative_to(TESTS).as_posix() if path.is_relative_to(TESTS) else ""

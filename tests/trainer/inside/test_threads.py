from pathlib import Path

import pytest

from trainer import threads


def version_2(folder: Path, text: str) -> None:
    (folder / "cpu.max").write_text(text)


def version_1(folder: Path, quota: int) -> None:
    (folder / "cpu").mkdir()
    (folder / "cpu" / "cpu.cfs_quota_us").write_text(f"{quota}\n")
    (folder / "cpu" / "cpu.cfs_period_us").write_text("100000\n")


def test_the_limit_of_cgroup_version_2(tmp_path: Path) -> None:
    version_2(tmp_path, "150000 100000\n")
    assert threads.cpu_limit(tmp_path) == 1.5


def test_the_limit_of_cgroup_version_1(tmp_path: Path) -> None:
    version_1(tmp_path, 400_000)
    assert threads.cpu_limit(tmp_path) == 4


def test_no_limit_in_either_version(tmp_path: Path) -> None:
    assert threads.cpu_limit(tmp_path) is None
    version_1(tmp_path, -1)
    assert threads.cpu_limit(tmp_path) is None
    version_2(tmp_path, "max 100000\n")
    assert threads.cpu_limit(tmp_path) is None


@pytest.mark.parametrize(
    ("limit", "usable", "local_world", "world", "expected"),
    [
        (1.5, 64, 1, 2, 1),
        (8.0, 64, 1, 2, 8),
        (8.0, 4, 1, 2, 4),
        (8.0, 64, 4, 4, 2),
        (0.5, 64, 1, 1, 1),
        (None, 2, 1, 2, 1),
        (None, 384, 1, 1, threads.WITHOUT_LIMIT),
    ],
)
def test_threads_follow_the_limit(
    limit: float | None, usable: int, local_world: int, world: int, expected: int
) -> None:
    assert threads.count(limit, usable, local_world, world) == expected


def test_the_users_own_number_stands() -> None:
    environ = {"OMP_NUM_THREADS": "3"}
    assert threads.apply(environ) == 3

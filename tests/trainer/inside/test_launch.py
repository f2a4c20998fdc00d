"""Jobs of an ElasticPolicy, whose pods get a rendezvous and no rank."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.inside.conftest import PATIENCE_S, Job
from trainer import launch

OPTIONS = ("--epochs", "4", "--log-interval", "5", "--timeout", "30")


def start(job: Job, log: Path) -> subprocess.Popen[bytes]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environ = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    environ |= {
        "OMP_NUM_THREADS": "1",
        "TRAINER_MODEL_DIR": str(job.volume),
        "TRAINER_RUN": "elastic",
        "TRAINER_DATASET": "digits",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": f"localhost:{port}",
        "PET_RDZV_ID": "job",
        "PET_NNODES": "1",
        "PET_NPROC_PER_NODE": "2",
        "PET_MAX_RESTARTS": "3",
    }
    with log.open("wb") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "trainer", *OPTIONS], env=environ, stdout=file, stderr=file
        )


def children(process: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def test_a_worker_killed_under_torchrun_changes_nothing(job: Job, tmp_path: Path) -> None:
    job.train(*OPTIONS, world=2, run="static")
    agent = start(job, log := tmp_path / "log")
    metrics = job.folder("elastic") / "metrics.jsonl"
    deadline = time.monotonic() + 60
    while not (metrics.exists() and '"step": 10,' in metrics.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(children(agent.pid)[0], signal.SIGKILL)
    try:
        assert agent.wait(PATIENCE_S) == 0
    finally:
        agent.kill()
        print(log.read_text())
    assert job.model("elastic") == job.model("static")


def test_only_a_rendezvous_without_a_rank_calls_for_torchrun() -> None:
    assert launch.wanted({"PET_RDZV_ENDPOINT": "job-worker-0:29400"})
    assert not launch.wanted({"PET_RDZV_ENDPOINT": "job-worker-0:29400", "RANK": "0"})
    assert not launch.wanted({"PET_MASTER_ADDR": "job-master-0"})


@pytest.mark.parametrize(
    ("limit", "given", "threads_each"),
    [
        (8.0, {}, "4"),
        (8.0, {"OMP_NUM_THREADS": "3"}, "3"),
        (None, {"PET_NNODES": "1:4"}, "2"),
        (8.0, {"PET_NPROC_PER_NODE": "1"}, None),
    ],
)
def test_processes_of_one_pod_share_its_cpu_limit(
    limit: float | None, given: dict[str, str], threads_each: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "cpu_limit", lambda: limit)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(16)))
    environ = {"PET_RDZV_ENDPOINT": "127.0.0.1:29400", "PET_NPROC_PER_NODE": "2", **given}
    launch.fill_in(environ)
    assert environ.get("OMP_NUM_THREADS") == threads_each, "of one process the process itself decides"


def test_a_pod_gives_its_address_not_its_name() -> None:
    assert launch.own_address("127.0.0.1:29400") == "127.0.0.1"


def version_2(folder: Path, text: str) -> None:
    (folder / "cpu.max").write_text(text)


def version_1(folder: Path, quota: int) -> None:
    (folder / "cpu").mkdir()
    (folder / "cpu" / "cpu.cfs_quota_us").write_text(f"{quota}\n")
    (folder / "cpu" / "cpu.cfs_period_us").write_text("100000\n")


def test_the_limit_of_cgroup_version_2(tmp_path: Path) -> None:
    version_2(tmp_path, "150000 100000\n")
    assert launch.cpu_limit(tmp_path) == 1.5


def test_the_limit_of_cgroup_version_1(tmp_path: Path) -> None:
    version_1(tmp_path, 400_000)
    assert launch.cpu_limit(tmp_path) == 4


def test_no_limit_in_either_version(tmp_path: Path) -> None:
    assert launch.cpu_limit(tmp_path) is None
    version_1(tmp_path, -1)
    assert launch.cpu_limit(tmp_path) is None
    version_2(tmp_path, "max 100000\n")
    assert launch.cpu_limit(tmp_path) is None


@pytest.mark.parametrize(
    ("limit", "usable", "local_world", "world", "expected"),
    [
        (1.5, 64, 1, 2, 1),
        (8.0, 64, 1, 2, 8),
        (8.0, 4, 1, 2, 4),
        (8.0, 64, 4, 4, 2),
        (0.5, 64, 1, 1, 1),
        (None, 2, 1, 2, 1),
        (None, 384, 1, 1, launch.WITHOUT_LIMIT),
    ],
)
def test_threads_follow_the_limit(
    limit: float | None, usable: int, local_world: int, world: int, expected: int
) -> None:
    assert launch.thread_count(limit, usable, local_world, world) == expected


def test_the_users_own_number_stands() -> None:
    environ = {"OMP_NUM_THREADS": "3"}
    assert launch.apply_threads(environ) == 3


ALLOCATE = """
import ctypes, sys
from trainer import launch
if sys.argv[1] == "keep":
    assert launch.keep_freed_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
block = libc.malloc(ctypes.c_size_t(100 << 20))
ctypes.memset(block, 1, 100 << 20)
filled = resident()
libc.free(block)
print(filled - resident())
"""


def given_back(how: str) -> int:
    """Bytes that the process returns to the kernel when it frees 100 MiB."""
    done = subprocess.run([sys.executable, "-c", ALLOCATE, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_a_freed_block_stays_with_the_process() -> None:
    assert given_back("plain") > 90 << 20
    assert given_back("keep") < 10 << 20

"""A process's place in its job, as operators and torchrun describe it; signals, threads, memory.

Under torchrun each process imports torch for itself, so these jobs are few.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.distributed import run
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.rendezvous import api as rendezvous

from tests.inside.conftest import PATIENCE_S, Job
from tests.inside.own import NUMBERS
from trainer import checkpoint, launch
from trainer.launch import ExitStatus

DIGITS = ("--dataset", "digits", "--timeout", "60")
# Counts how often each of 64 examples was trained on; see own.Tally. A checkpoint follows each step.
TALLY: tuple[str, ...] = (
    "--network",
    "tests.inside.own:Tally",
    "--data",
    "tests.inside.own:numbers",
    "--checkpoint-seconds",
    "0",
)
TALLY += (
    "--lr",
    "1",
    "--momentum",
    "0",
    "--global-batch-size",
    "8",
    "--log-interval",
    "1",
    "--timeout",
    "60",
)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Pods:
    """The pods of one job, each a process with a log of its own."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, *options: str, **environ: str) -> subprocess.Popen[bytes]:
        common = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
        common |= {"OMP_NUM_THREADS": "1", "TRAINER_MODEL_DIR": str(self.job.volume), "TRAINER_RUN": "run"}
        command = [sys.executable, "-m", "trainer", *options]
        with self.log(len(self.started)).open("wb") as file:
            pod = subprocess.Popen(command, env={**common, **environ}, stdout=file, stderr=file)
        self.started.append(pod)
        return pod

    def log(self, number: int) -> Path:
        return Path(self.job.volume.parent, f"pod-{number}.log")

    def wait(self) -> list[int]:
        return [pod.wait(PATIENCE_S) for pod in self.started]

    def output(self) -> str:
        return "\n".join(self.log(number).read_text() for number in range(len(self.started)))


@pytest.fixture
def pods(job: Job) -> Iterator[Pods]:
    pods = Pods(job)
    yield pods
    print(pods.output())
    for pod in pods.started:
        pod.kill()
        pod.wait()


def children(process: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def steps(job: Job) -> int:
    """The last step in the run's metrics, -1 before the first."""
    path = job.folder() / "metrics.jsonl"
    found = re.findall(r'"step": (\d+)', path.read_text()) if path.exists() else []
    return int(found[-1]) if found else -1


def world(job: Job) -> int:
    """Ranks of the run's last start, 0 before the first."""
    path = job.folder() / "config.json"
    return int(json.loads(path.read_text())["world_size"]) if path.exists() else 0


def elastic(nodes: str, port: int, processes: int = 1) -> dict[str, str]:
    """As the operator describes an ElasticPolicy."""
    return {
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": f"127.0.0.1:{port}",
        "PET_RDZV_ID": "job",
        "PET_RDZV_CONF": "last_call_timeout=1,join_timeout=60,keep_alive_interval=1,keep_alive_max_attempt=3",
        "PET_NNODES": nodes,
        "PET_NPROC_PER_NODE": str(processes),
        "PET_MAX_RESTARTS": "10",
    }


@pytest.mark.sampled(0)
def test_a_worker_killed_under_torchrun_changes_nothing(job: Job, pods: Pods) -> None:
    options = (*DIGITS, "--epochs", "4", "--log-interval", "5")
    job.train(*options, world=2, run="static")
    pod = pods.start(*options, **elastic("1", free_port(), processes=2))
    until(lambda: (job.folder() / checkpoint.NAME).exists(), "no checkpoint after the first epoch")
    until(lambda: steps(job) >= 30, "no step in the second epoch")
    victims = children(pod.pid)
    assert len(victims) == 2
    os.kill(victims[0], signal.SIGKILL)
    assert pods.wait() == [0]
    assert "resumed at epoch 2" in pods.output()
    assert job.model() == job.model("static")


@pytest.mark.sampled(0)
def test_pods_of_an_elastic_job_come_and_go(job: Job, pods: Pods, tmp_path: Path) -> None:
    """One, two, one: no example is lost or trained on twice within an epoch, and the run ends."""
    epochs = 100
    options = (*TALLY, "--network", "tests.inside.own:SlowTally", "--epochs", str(epochs))
    environ = {**elastic("1:2", free_port()), "HURRY": str(tmp_path / "hurry")}
    pods.start(*options, **environ)
    until(lambda: steps(job) >= 4, "the first pod does not train alone")
    second = pods.start(*options, **environ)
    until(lambda: "replicas: 1 before, 2 now" in pods.output(), "the second pod does not join")
    joined = steps(job)
    until(lambda: steps(job) >= joined + 4, "they do not train together")
    for process in (*children(second.pid), second.pid):
        os.kill(process, signal.SIGKILL)
    until(lambda: "replicas: 2 before, 1 now" in pods.output(), "the first pod does not go on alone")
    (tmp_path / "hurry").touch()
    assert pods.started[0].wait(PATIENCE_S) == 0
    weights = torch.load(job.volume / "mnist_cnn.pt", weights_only=True)["weights.weight"]
    assert torch.equal(weights, torch.full((NUMBERS, 1), -epochs / 8))


@pytest.mark.sampled(0)
def test_an_elastic_job_outlives_the_pod_where_its_pods_meet(job: Job, pods: Pods, tmp_path: Path) -> None:
    """The pod is killed, and made again as the operator does; the other one ends so that it is made again, too."""
    epochs = 100
    options = (*TALLY, "--network", "tests.inside.own:SlowTally", "--epochs", str(epochs))
    meeting = elastic("1:2", free_port())
    each = [
        {
            **meeting,
            "PET_RDZV_CONF": f"{meeting['PET_RDZV_CONF']},is_host={host}",
            "HURRY": str(tmp_path / "hurry"),
        }
        for host in (1, 0)
    ]
    first, second = (pods.start(*options, **environ) for environ in each)
    until(lambda: world(job) == 2 and steps(job) >= 4, "they do not meet")
    for process in (*children(first.pid), first.pid):
        os.kill(process, signal.SIGKILL)
    pods.start(*options, **each[0])
    until(lambda: second.poll() is not None, "the other pod does not notice")
    assert second.returncode >= 128, "below, the operator fails the job"
    before = steps(job)
    pods.start(*options, **each[1])
    until(lambda: world(job) == 2 and steps(job) >= before + 4, "they do not meet again")
    (tmp_path / "hurry").touch()
    assert [pod.wait(PATIENCE_S) for pod in pods.started[2:]] == [0, 0]
    weights = torch.load(job.volume / "mnist_cnn.pt", weights_only=True)["weights.weight"]
    assert torch.equal(weights, torch.full((NUMBERS, 1), -epochs / 8))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("options", "status"),
    [(("--lr", "1e9"), ExitStatus.DIVERGED), (("--from", "missing.pt"), ExitStatus.REFUSED)],
)
def test_torchrun_s_status_is_that_of_its_processes(
    pods: Pods, options: tuple[str, ...], status: ExitStatus
) -> None:
    once = {**elastic("1", free_port(), processes=2), "PET_MAX_RESTARTS": "0"}
    pods.start(*DIGITS, *options, **once)
    assert pods.wait() == [status]


def test_a_lost_process_under_torchrun_is_one_that_a_restart_mends(job: Job, pods: Pods) -> None:
    pod = pods.start(*DIGITS, "--epochs", "100", **{**elastic("1", free_port(), 2), "PET_MAX_RESTARTS": "0"})
    until(lambda: steps(job) >= 10, "no step")
    os.kill(children(pod.pid)[1], signal.SIGKILL)
    assert pods.wait()[0] in (ExitStatus.PEER_LOST, 128 + signal.SIGKILL)


def test_sigterm_under_torchrun_is_sigterm(job: Job, pods: Pods) -> None:
    pod = pods.start(*DIGITS, "--epochs", "100", **elastic("1", free_port(), 2))
    until(lambda: steps(job) >= 10, "no step")
    pod.terminate()
    assert pods.wait() == [ExitStatus.TERMINATED]


def cleans_up_badly(error: type[Exception]) -> Callable[[object], None]:
    """As torch's own timing of a function, when the signal comes before it has read the clock."""

    def end(arguments: object) -> None:
        try:
            raise SignalException("got a signal", sigval=signal.SIGTERM)
        finally:
            raise error("failed to clean up")

    return end


@pytest.mark.parametrize("error", [UnboundLocalError, rendezvous.RendezvousError, dist.DistError])
def test_sigterm_is_sigterm_wherever_torchrun_is(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "main", cleans_up_badly(error))
    assert launch.run_torchrun([], elastic("1:2", free_port())) == ExitStatus.TERMINATED


HOST = """
import sys, time
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", int(sys.argv[1]), None, True, use_libuv=False, wait_for_workers=False)
time.sleep(600)
"""


def loses_the_store(arguments: object) -> None:
    """What the agent of one pod does when the pod that holds the store is deleted while they meet."""
    port = free_port()
    with subprocess.Popen([sys.executable, "-c", HOST, str(port)]) as host:
        try:
            patience = timedelta(seconds=PATIENCE_S)
            store = dist.TCPStore(
                "127.0.0.1", port, None, False, patience, wait_for_workers=False, use_libuv=False
            )
        finally:
            host.kill()
    store.get("MASTER_ADDR")


def ends_with(error: type[Exception]) -> Callable[[object], None]:
    def end(arguments: object) -> None:
        raise error("failed to recv, got 0 bytes")

    return end


def those_below(kind: type[Exception]) -> list[type[Exception]]:
    return [kind, *(below for each in kind.__subclasses__() for below in those_below(each))]


OF_THE_STORE = those_below(dist.DistError)
OF_THE_MEETING = those_below(rendezvous.RendezvousError)


@pytest.mark.parametrize(
    "agent",
    [loses_the_store, *map(ends_with, OF_THE_STORE + OF_THE_MEETING)],
    ids=["real", *(each.__name__ for each in OF_THE_STORE + OF_THE_MEETING)],
)
def test_pods_that_lose_each_other_while_they_meet_are_started_again(
    agent: Callable[[object], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "main", agent)
    status = launch.run_torchrun([], elastic("1:2", free_port()))
    assert status == ExitStatus.PEER_LOST
    assert "did not meet" in capsys.readouterr().err


def test_another_error_of_torchrun_is_not_taken_for_a_lost_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "main", ends_with(ValueError))
    with pytest.raises(ValueError, match="0 bytes"):
        launch.run_torchrun([], elastic("1:2", free_port()))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("nodes", ["1", "1:1"])
def test_a_standalone_pod_meets_itself(job: Job, pods: Pods, nodes: str) -> None:
    """As the operator describes `standalone`: an empty variable, beside an endpoint whose name resolves nowhere."""
    place = {**elastic(nodes, free_port(), processes=2), "PET_RDZV_ENDPOINT": "job-worker-0.invalid:23456"}
    pods.start(*DIGITS, **place, PET_STANDALONE="")
    assert pods.wait() == [0], pods.output()
    assert world(job) == 2


@pytest.mark.parametrize("nodes", ["2", "1:2", "2:4"])
def test_standalone_pods_that_would_each_train_alone_are_refused(job: Job, pods: Pods, nodes: str) -> None:
    pods.start(*DIGITS, **elastic(nodes, free_port()), PET_STANDALONE="")
    assert pods.wait() == [ExitStatus.REFUSED]
    assert f"standalone is for a job of one pod, and this job has {nodes}" in pods.output().splitlines()[-1]
    assert not job.folder().exists()


@pytest.mark.parametrize(("value", "is_so"), [("", True), ("1", True), ("0", False), (None, False)])
def test_a_pod_is_standalone_by_its_variable(value: str | None, is_so: bool) -> None:
    environ = {} if value is None else {"PET_STANDALONE": value}
    assert launch.needs_torchrun(environ) is is_so
    launch.fill_in(environ)
    assert (environ.get("PET_LOCAL_ADDR") == "127.0.0.1") is is_so


@pytest.mark.parametrize(
    ("codes", "status"),
    [
        ([0, 0], 0),
        ([1, 138], 1),
        ([138, 1], 1),
        ([138, -9], 138),
        ([-9, 138], 137),
        ([3, 138], 3),
        ([-15], 143),
        ([143], 143),
    ],
)
def test_one_status_for_the_processes_of_a_pod(codes: list[int], status: int) -> None:
    assert launch.pod_status(codes) == status


def test_two_processes_in_each_pod_without_an_elastic_policy(job: Job, pods: Pods) -> None:
    """As the operator describes `nprocPerNode: "2"` with Master 1 and Worker 1."""
    port = str(free_port())
    for rank in ("0", "1"):
        place = {
            "RANK": rank,
            "WORLD_SIZE": "4",
            "PET_NODE_RANK": rank,
            "PET_NNODES": "2",
            "PET_NPROC_PER_NODE": "2",
        }
        address = {"MASTER_ADDR": "127.0.0.1", "PET_MASTER_ADDR": "127.0.0.1"}
        pods.start(*DIGITS, **place, **address, MASTER_PORT=port, PET_MASTER_PORT=port)
    assert pods.wait() == [0, 0]
    assert '"world_size": 4' in (job.folder() / "config.json").read_text()


def test_a_job_described_by_pet_variables_only_meets(job: Job, pods: Pods) -> None:
    """As Kubeflow Trainer v2 describes a job of two nodes."""
    port = str(free_port())
    for rank in ("0", "1"):
        place = {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "1", "PET_NODE_RANK": rank}
        pods.start(*DIGITS, **place, PET_MASTER_ADDR="127.0.0.1", PET_MASTER_PORT=port)
    assert pods.wait() == [0, 0]
    assert '"world_size": 2' in (job.folder() / "config.json").read_text()


STATIC = {
    "PET_NNODES": "2",
    "PET_NODE_RANK": "1",
    "PET_MASTER_ADDR": "job-master-0",
    "PET_MASTER_PORT": "23456",
}


@pytest.mark.parametrize("processes", ["1", "auto", "2"])
@pytest.mark.parametrize("missing", ["PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"])
def test_a_replica_that_would_train_alone_is_refused(missing: str, processes: str) -> None:
    environ = {name: value for name, value in STATIC.items() if name != missing}
    environ["PET_NPROC_PER_NODE"] = processes
    refusing = launch.fill_in if launch.needs_torchrun(environ) else launch.take_static_rank
    with pytest.raises(launch.LaunchError, match=missing):
        refusing(environ)


@pytest.mark.parametrize(
    "environ", [{"WORLD_SIZE": "2"}, {"PET_NNODES": "1:2"}, {"PET_NNODES": "2", "RANK": "0"}], ids=str
)
def test_half_a_description_is_refused(environ: dict[str, str]) -> None:
    with pytest.raises(launch.LaunchError, match="the replica would train alone"):
        launch.take_static_rank(environ)


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"PET_NNODES": "1", "PET_NPROC_PER_NODE": "auto"},
        {"RANK": "0", "WORLD_SIZE": "2", "PET_NNODES": "2", "PET_NPROC_PER_NODE": "auto"},
        {"LOCAL_RANK": "0", "RANK": "0", "WORLD_SIZE": "1", "PET_NNODES": "1:4"},
    ],
    ids=str,
)
def test_a_whole_description_is_left_as_it_is(environ: dict[str, str]) -> None:
    before = dict(environ)
    assert not launch.needs_torchrun(environ)
    launch.take_static_rank(environ)
    assert environ == before


@pytest.mark.parametrize(
    ("environ", "needed"),
    [
        ({"PET_RDZV_ENDPOINT": "job-worker-0:29400"}, True),
        ({"PET_RDZV_ENDPOINT": "job-worker-0:29400", "RANK": "0"}, False),
        ({"PET_RDZV_ENDPOINT": "job-worker-0:29400", "LOCAL_RANK": "0"}, False),
        ({"PET_MASTER_ADDR": "job-master-0"}, False),
        ({"PET_NNODES": "2", "PET_NPROC_PER_NODE": "2", "RANK": "1", "WORLD_SIZE": "4"}, True),
        ({"PET_NNODES": "2", "PET_NPROC_PER_NODE": "1", "RANK": "1", "WORLD_SIZE": "2"}, False),
        ({"PET_NNODES": "1", "PET_NPROC_PER_NODE": "3"}, True),
    ],
    ids=str,
)
def test_torchrun_is_for_elastic_jobs_and_several_processes(environ: dict[str, str], needed: bool) -> None:
    assert launch.needs_torchrun(environ) is needed


@pytest.mark.sampled(1)
@pytest.mark.parametrize("place", ["elastic", "ranks", "processes"])
def test_sigterm_ends_a_rendezvous_at_once(job: Job, pods: Pods, place: str) -> None:
    """Nobody else comes. As PID 1 it is tried with the image itself."""
    port = str(free_port())
    static = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RANK": "0"}
    environ = {
        "ranks": {**static, "WORLD_SIZE": "2"},
        "elastic": elastic("2", int(port)),
        "processes": {
            **static,
            "WORLD_SIZE": "4",
            "PET_NNODES": "2",
            "PET_NPROC_PER_NODE": "2",
            "PET_NODE_RANK": "0",
        },
    }[place]
    pod = pods.start(*DIGITS, **environ)
    until(lambda: listening(int(port)), "the rendezvous is not open")
    time.sleep(0.5)
    pod.terminate()
    assert pod.wait(PATIENCE_S) == ExitStatus.TERMINATED, "had it waited for the time-out, it were 138"


def listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_pod_gives_its_address_not_its_name() -> None:
    assert launch.own_address("127.0.0.1:29400") == "127.0.0.1"
    assert launch.own_address("127.0.0.1") == "127.0.0.1"


def test_a_pod_with_ipv6_only_gives_that_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(host: str, port: int, **more: object) -> list[tuple[object, ...]]:
        assert (host, port) == ("fd00::7", 29400)
        return [(socket.AF_INET6, socket.SOCK_DGRAM, 17, "", (host, port, 0, 0))]

    class Probe:
        def __init__(self, family: int, *rest: int) -> None:
            assert family == socket.AF_INET6

        def __enter__(self) -> "Probe":
            return self

        def __exit__(self, *error: object) -> None:
            pass

        def connect(self, address: tuple[object, ...]) -> None:
            assert address[0] == "fd00::7"

        def getsockname(self) -> tuple[str, int]:
            return "fd00::8", 1

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(socket, "socket", Probe)
    assert launch.own_address("[fd00::7]:29400") == "fd00::8"


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


FORKS = """
import os, signal, time
from trainer import launch
launch.Termination().install()
for _ in range(50):
    child = os.fork()
    if not child:
        time.sleep(60)
        os._exit(0)
    os.kill(child, signal.SIGTERM)  # also before the child has run at all
    assert os.waitpid(child, 0)[1] == signal.SIGTERM
print("the parent lives")
"""


def test_a_forked_worker_ends_by_sigterm_and_its_parent_does_not() -> None:
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.stdout == "the parent lives\n", done.stderr


def test_a_freed_block_stays_with_the_process() -> None:
    assert given_back("plain") > 90 << 20
    assert given_back("keep") < 10 << 20

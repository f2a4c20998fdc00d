"""What a process does before it imports torch: signals, place in the job, threads, memory. Standard library only."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from enum import IntEnum
from functools import partial
from pathlib import Path
from types import FrameType

CGROUP = Path("/sys/fs/cgroup")
DEVICES = Path("/dev")
WITHOUT_LIMIT = 8  # more threads do not help networks of this size
# From glibc's <malloc.h>; glibc's manual explains them under "Malloc Tunable Parameters".
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT_BYTES = 1 << 30


class ExitStatus(IntEnum):
    """How a process ends. The operator's policy ExitCode restarts a pod from status 128 on; below, no restart helps."""

    DONE = 0
    REFUSED = 1  # data, options or set-up
    DIVERGED = 3  # loss, accuracy or weights are not finite
    VOLUME = 4  # the volume cannot be read or written
    PEER_LOST = 138  # the operator leaves the meaning of this status to users
    TERMINATED = 128 + signal.SIGTERM


class LaunchError(Exception):
    """The environment describes a job that this process cannot join; the message says what is missing."""


class Termination:
    """SIGTERM ends the process at once. While `training`, SIGTERM only sets `requested`: the current step is finished.

    PID 1 gets SIGTERM only if it has a handler. Python runs a handler only between two byte codes; during a rendezvous,
    minutes may pass before the next one. So a thread waits for the signal's number on a pipe.
    """

    def __init__(self) -> None:
        self.training = False
        self.requested = False

    def install(self) -> None:
        """Handle SIGTERM from now on. Only the main thread may call this method."""
        os.register_at_fork(
            before=partial(signal.pthread_sigmask, signal.SIG_BLOCK, {signal.SIGTERM}),
            after_in_parent=partial(signal.pthread_sigmask, signal.SIG_UNBLOCK, {signal.SIGTERM}),
            after_in_child=self._forget,
        )
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        signal.signal(signal.SIGTERM, self._request)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=(reading,), daemon=True).start()

    @staticmethod
    def _forget() -> None:
        """In a user's forked worker, SIGTERM only ends the worker: a pool ends its workers by this signal.

        The signal is blocked while a process forks, because the signal may come before this call.
        """
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})

    def _request(self, number: int, frame: FrameType | None) -> None:
        self.requested = True

    def _watch(self, reading: int) -> None:
        while number := os.read(reading, 1):
            ours = signal.getsignal(signal.SIGTERM) == self._request  # torchrun installs its own handler
            if number[0] == signal.SIGTERM and ours and not self.training:
                os._exit(ExitStatus.TERMINATED)


def needs_torchrun(environ: MutableMapping[str, str]) -> bool:
    """Whether torchrun has to start this pod's processes: for an elastic job, or for several processes in a pod."""
    if "LOCAL_RANK" in environ:  # torchrun has started this process
        return False
    if standalone(environ) or ("PET_RDZV_ENDPOINT" in environ and "RANK" not in environ):
        return True
    return "PET_NNODES" in environ and processes(environ) != "1"


def standalone(environ: MutableMapping[str, str]) -> bool:
    """Whether an elastic policy says `standalone`: the operator then sets PET_STANDALONE to an empty text."""
    return environ.get("PET_STANDALONE", "0") != "0"


def processes(environ: MutableMapping[str, str]) -> str:
    """Processes of this pod: PET_NPROC_PER_NODE. `auto` becomes 1, except in an elastic job's pod with GPUs.

    In such a pod, torchrun counts the GPUs. Without GPUs, torchrun would count the host's cores and ignore the pod's
    limit.
    """
    given = environ.get("PET_NPROC_PER_NODE", "auto")
    if given == "auto" and "PET_RDZV_ENDPOINT" in environ and (DEVICES / "nvidiactl").exists():
        return given  # torchrun counts the GPUs
    return "1" if given == "auto" else given


def take_static_rank(environ: MutableMapping[str, str]) -> None:
    """Set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT for a job that has only PET_* variables.

    Kubeflow Trainer v2 sets only PET_* variables. Raises LaunchError if a job of several nodes lacks one of the four:
    every node would train alone.
    """
    if {"RANK", "WORLD_SIZE"} <= environ.keys() or "LOCAL_RANK" in environ:
        return
    nodes = environ.get("WORLD_SIZE") or environ.get("PET_NNODES", "1")
    if nodes == "1":
        return
    names = {
        "RANK": "PET_NODE_RANK",
        "WORLD_SIZE": "PET_NNODES",
        "MASTER_ADDR": "PET_MASTER_ADDR",
        "MASTER_PORT": "PET_MASTER_PORT",
    }
    for name, source in names.items():
        if value := environ.get(name) or environ.get(source):
            environ[name] = value
    missing = [f"{name} (or {source})" for name, source in names.items() if not environ.get(name)]
    if missing or not environ["WORLD_SIZE"].isdecimal():
        raise LaunchError(
            f"this replica is one of {nodes}, but {', '.join(missing) or 'PET_RDZV_ENDPOINT'} is missing: the replica "
            "would train alone; set what is missing, or, for a job of one process, unset WORLD_SIZE and all PET_*"
        )


def run_torchrun(arguments: Sequence[str], environ: MutableMapping[str, str] = os.environ) -> int:
    """Let torchrun run this pod's processes; torchrun reads PET_* itself. Returns the exit status.

    After a failure, torchrun's own exit status is always 1: for every status of its processes, and for its own errors.
    One of these is a DistError, if the pod with torchrun's store is deleted while other pods read the store.
    """
    fill_in(environ)
    from torch.distributed import DistError, run
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous.api import RendezvousError

    try:
        run.main(["-m", "trainer", *arguments])
    except Exception as error:
        for each in with_contexts(error):
            if isinstance(each, SignalException):
                return 128 + int(each.sigval)
        if isinstance(error, ChildFailedError):
            print(error, file=sys.stderr)
            return pod_status(failure.exitcode for failure in error.failures.values())
        if isinstance(error, RendezvousError | DistError):
            print(
                f"error: the pods of this job did not meet ({error}); see the logs of the other pods",
                file=sys.stderr,
            )
            return ExitStatus.PEER_LOST
        raise
    return ExitStatus.DONE


def with_contexts(error: BaseException | None) -> Iterator[BaseException]:
    """`error`, and the errors that were being handled when it was raised.

    torchrun's SignalException may come in any of its lines. Code that cleans up there may raise another error.
    """
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def pod_status(codes: Iterable[int]) -> int:
    """One exit status for several processes. A status below 128 comes first: no restart repairs its cause.

    A process that a signal ended counts with 128 + the signal's number.
    """
    found = [128 - code if code < 0 else code for code in codes if code]
    return min((code for code in found if code < 128), default=found[0] if found else ExitStatus.DONE)


def fill_in(environ: MutableMapping[str, str]) -> None:
    """Set what torchrun would otherwise take from the host: processes, threads, address. Raises LaunchError."""
    if standalone(environ):
        meet_alone(environ)
    if "PET_RDZV_ENDPOINT" not in environ and environ.get("PET_NNODES", "1") != "1":
        for name in ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK"):
            if not environ.setdefault(f"PET_{name}", environ.get(name, "")):
                raise LaunchError(
                    f"PET_NNODES is {environ['PET_NNODES']}, but neither PET_{name} nor {name} is set; set one of them"
                )
    environ["PET_NPROC_PER_NODE"] = number = processes(environ)
    if number.isdecimal() and int(number) > 1:  # torchrun would give each process one thread
        nodes = environ.get("PET_NNODES", "1").rpartition(":")[2]
        world = {"LOCAL_WORLD_SIZE": number, "WORLD_SIZE": str(int(number) * int(nodes))}
        environ["OMP_NUM_THREADS"] = str(apply_threads({**environ, **world}))
    if "PET_RDZV_ENDPOINT" in environ and "PET_LOCAL_ADDR" not in environ:
        environ["PET_LOCAL_ADDR"] = own_address(environ["PET_RDZV_ENDPOINT"])


def meet_alone(environ: MutableMapping[str, str]) -> None:
    """Let the processes of a standalone pod meet on the pod's loopback address. The pod's name does not matter then.

    torchrun refuses an empty PET_STANDALONE. Raises LaunchError for a job of several pods: each would train alone.
    """
    nodes = environ.get("PET_NNODES", "1")
    if nodes not in ("1", "1:1"):
        raise LaunchError(
            f"elasticPolicy.standalone is for a job of one pod, and this job has {nodes} (PET_NNODES): each pod would "
            "train alone; leave standalone out, or set minReplicas, maxReplicas and the workers' replicas to 1"
        )
    environ["PET_STANDALONE"] = "1"
    environ.setdefault("PET_LOCAL_ADDR", "127.0.0.1")


def own_address(endpoint: str) -> str:
    """This pod's address towards the rendezvous, IPv4 or IPv6. Other pods cannot resolve a pod's own name.

    Connecting a datagram socket only looks up the route; nothing is sent.
    """
    matched = re.fullmatch(r"\[?(.*?)\]?(?::(\d+))?", endpoint)
    host, port = (matched[1], matched[2]) if matched else (endpoint, None)
    try:
        found = socket.getaddrinfo(host, int(port or 29500), type=socket.SOCK_DGRAM)
    except OSError:
        return socket.gethostname()
    for family, kind, protocol, _, address in found:
        with socket.socket(family, kind, protocol) as probe:
            try:
                probe.connect(address)
                return str(probe.getsockname()[0])
            except OSError:
                continue
    return socket.gethostname()


def cpu_limit(cgroup: Path = CGROUP) -> float | None:
    """The cgroup's CPU limit (v2's cpu.max, else v1's CFS quota), None without a limit."""
    try:
        quota, period = (cgroup / "cpu.max").read_text().split()
    except FileNotFoundError:
        try:
            quota = (cgroup / "cpu" / "cpu.cfs_quota_us").read_text()
            period = (cgroup / "cpu" / "cpu.cfs_period_us").read_text()
        except FileNotFoundError:
            return None
    if quota.strip() in ("max", "-1"):
        return None
    return int(quota) / int(period)


def thread_count(limit: float | None, usable: int, local_world: int, world: int) -> int:
    """Threads per process, at least 1.

    Parameters:
        limit: CPUs granted to the container, None without a limit
        usable: CPUs in this process's affinity mask
        local_world: training processes that share the container
        world: all training processes of the job; without a limit, all of them may be on this node
    """
    if limit is None:
        return max(1, min(usable // max(world, local_world), WITHOUT_LIMIT))
    return max(1, min(int(limit), usable) // local_world)


def apply_threads(environ: MutableMapping[str, str] = os.environ) -> int:
    """Set OMP_NUM_THREADS by the pod's CPU limit if the user has not set it; returns the number of threads.

    OpenMP and torch read the variable once, so call this before torch is imported.
    """
    if "OMP_NUM_THREADS" not in environ:
        local_world = int(environ.get("LOCAL_WORLD_SIZE", "1"))
        world = int(environ.get("WORLD_SIZE", "1"))
        usable = len(os.sched_getaffinity(0))
        environ["OMP_NUM_THREADS"] = str(thread_count(cpu_limit(), usable, local_world, world))
    return int(environ["OMP_NUM_THREADS"])


def keep_freed_memory() -> bool:
    """Tell the C library to keep freed blocks of up to KEPT_BYTES; returns whether it will.

    glibc returns freed blocks of more than 32 MiB to the kernel. The kernel clears such a block, page by page, when the
    next step needs it again. With 730 images or more, the first activations of `lenet` need such a block. The order of
    the two settings matters: with the second setting alone, glibc would map every block again.
    """
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):
        return False
    return all(libc.mallopt(parameter, KEPT_BYTES) for parameter in (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD))

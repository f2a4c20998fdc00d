"""Tests that run inside the trainer image; on a host without torch nothing of them is collected."""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # before anything imports torch

import pytest

from tests.inside import cases, fork_server
from tests.inside.fork_server import Process

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]

MNIST = Path("/mnist")
# Six steps an epoch, where the digits have 23 of four times as many images.
TINY = ("--data", "tests.inside.own:tiny", "--network", "fast", "--global-batch-size", "16")
PATIENCE_S = 300
# What the operator's ExitCode policy starts again: a lost replica, SIGTERM obeyed, SIGKILL.
RESTARTED = (138, 143, -signal.SIGKILL)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cases", choices=cases.CHOICES, default="all", help="which cases of the long tests")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "sampled(n): n of its cases in `make test`, all in `make test-full`")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    kept = cases.chosen(items, config.getoption("cases"))
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept


def pytest_sessionfinish() -> None:
    fork_server.close()


@dataclass
class Ranks:
    """The processes of one job, rank 0 first; what each writes goes to a file of its own."""

    arguments: list[str]
    environ: dict[str, str]
    folder: Path
    script: str | None
    processes: list[Process] = field(default_factory=list)

    def start(self, rank: int, *options: str, **environ: str) -> Process:
        log = str(self.folder / f"rank-{rank}.log")
        return Process(
            arguments=[*self.arguments, *options],
            environ={**self.environ, "RANK": str(rank), **environ},
            folder=str(self.folder),
            stdout=log,
            stderr=log,
            script=self.script,
        )

    @property
    def output(self) -> list[str]:
        """What each rank has written; nothing of one that was killed before it opened its log."""
        logs = [self.folder / f"rank-{rank}.log" for rank in range(len(self.processes))]
        return [log.read_text() if log.exists() else "" for log in logs]

    def wait(self) -> list[int]:
        """Exit statuses."""
        return [process.wait(PATIENCE_S) for process in self.processes]

    def kill(self, rank: int, number: int = signal.SIGKILL) -> None:
        self.processes[rank].send_signal(number)

    def supervise(self) -> None:
        """Start again whichever rank is interrupted, as the operator does, until rank 0 has succeeded."""
        deadline = time.monotonic() + PATIENCE_S
        while (status := self.processes[0].poll()) != 0:
            assert time.monotonic() < deadline, "\n".join(self.output)
            for rank, process in enumerate(self.processes):
                if code := process.poll():
                    assert code in RESTARTED, self.output[rank]
                    self.processes[rank] = self.start(rank)
            time.sleep(0.05)
        assert status == 0
        for process in self.processes[1:]:
            process.kill()
            process.wait(PATIENCE_S)


@dataclass
class Job:
    """Starts `trainer` as a job of `world` ranks over gloo, on digits, with a volume of its own.

    `each` has further environment variables of each rank, `options_of` further options. What the ranks say is kept
    in `logs`, beside the volume without it.
    """

    volume: Path
    logs: Path | None = None

    def start(
        self,
        *options: str,
        world: int = 1,
        run: str = "run",
        script: str | None = None,
        each: Sequence[dict[str, str]] = (),
        options_of: Sequence[Sequence[str]] = (),
        **environ: str,
    ) -> Ranks:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        common = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "TRAINER_MODEL_DIR": str(self.volume),
            "TRAINER_RUN": run,
            "TRAINER_DATASET": "digits",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "WORLD_SIZE": str(world),
            **environ,
        }
        folder = Path(tempfile.mkdtemp(dir=self.logs or self.volume.parent))
        patience = [] if "--timeout" in options else ["--timeout", "120"]
        ranks = Ranks([*options, *patience], common, folder, script)
        for rank in range(world):
            more = each[rank] if each else {}
            ranks.processes.append(ranks.start(rank, *(options_of[rank] if options_of else ()), **more))
        return ranks

    def train(self, *options: str, world: int = 1, run: str = "run", **environ: str) -> str:
        """Rank 0's output of a job that has to succeed."""
        ranks = self.start(*options, world=world, run=run, script=None, each=(), **environ)
        statuses = ranks.wait()
        assert statuses == [0] * world, "\n".join(ranks.output)
        return ranks.output[0]

    def folder(self, run: str = "run") -> Path:
        return self.volume / "runs" / run

    def model(self, run: str = "run") -> bytes:
        return (self.folder(run) / "mnist_cnn.pt").read_bytes()


@pytest.fixture
def job(tmp_path: Path) -> Job:
    volume = tmp_path / "volume"
    volume.mkdir()
    return Job(volume)


@pytest.fixture(scope="module")
def undisturbed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The model of two ranks that nobody disturbed, trained with the OPTIONS of the test's module."""
    job = Job(tmp_path_factory.mktemp("undisturbed") / "volume")
    job.volume.mkdir()
    job.train(*request.module.OPTIONS, world=2)
    return bytes(job.model())


@pytest.fixture
def mnist() -> Path:
    if not MNIST.is_dir():
        pytest.skip("needs the real MNIST, see run_in_image.sh")
    return MNIST


def trainer(*arguments: str, script: str | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
    """One process of `python3 -m trainer`, outside any job."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TRAINER_")}
    with tempfile.TemporaryDirectory() as folder:
        stdout, stderr = Path(folder, "stdout"), Path(folder, "stderr")
        process = Process(
            arguments=arguments,
            environ={**inherited, "OMP_NUM_THREADS": "1", **environ},
            folder=folder,
            stdout=str(stdout),
            stderr=str(stderr),
            script=script,
        )
        status = process.wait(PATIENCE_S)
        return subprocess.CompletedProcess(arguments, status, stdout.read_text(), stderr.read_text())


def copy(files: Sequence[Path], into: Path) -> None:
    into.mkdir(parents=True, exist_ok=True)
    for file in files:
        shutil.copyfile(file, into / file.name)

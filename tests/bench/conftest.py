"""Benchmarks: `make bench`. They print Markdown tables; docs/benchmarks.md keeps what was measured, and on what.

Some also leave data, of which plots are drawn at the end: with `--thorough` those of the page, else below .trainstack.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.pictures import measured, plots
from toolchain.machine import processes
from toolchain.paths import LOCAL

ROOT = Path(__file__).parents[2]
MNIST = (ROOT / os.environ.get("TRAINSTACK_MNIST", "../shared/data/mnist")).resolve()
NOW = "working tree"
Recorder = Callable[[str, list[dict[str, Any]]], None]
"""Takes a name and the rows of that benchmark's data."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--thorough"):
        return
    left = [item for item in items if item.get_closest_marker("thorough")]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


@dataclass(frozen=True)
class Bench:
    """The trainer image in a container of its own per run, with MNIST at /data and scratch space at /tmp/bench."""

    image: str

    def run(self, *command: str, volumes: tuple[str, ...] = (), environ: tuple[str, ...] = ()) -> str:
        options = [*(f"--volume={volume}" for volume in volumes), *(f"--env={pair}" for pair in environ)]
        options += [f"--volume={MNIST}:/data:ro", f"--volume={ROOT / 'tests/bench/inside'}:/bench:ro"]
        docker = ["docker", "run", "--rm", "--network=none", "--tmpfs=/tmp:exec", "--entrypoint=sh", *options]
        done = subprocess.run(
            [*docker, "--workdir=/tmp", self.image, "-c", " ".join(command)], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def job(
        self, ranks: int, command: str, before: str = "true", after: str = "true", **environ: str
    ) -> dict[str, Any]:
        """What side.py says of a job, with the output of the shell line `after` as key `after`."""
        script = f"{before} && python3 /bench/side.py {ranks} {command} && {after}"
        out = self.run(script, environ=tuple(f"{name}={value}" for name, value in environ.items()))
        first, _, rest = out.partition("\n")
        found: dict[str, Any] = json.loads(first)
        assert found["status"] == [0] * ranks, found["lines"]
        return {**found, "after": rest.strip()}


@pytest.fixture(scope="session")
def bench() -> Bench:
    if not MNIST.is_dir():
        pytest.skip("needs the real MNIST: set TRAINSTACK_MNIST")
    if not shutil.which("docker"):
        pytest.skip("needs a container engine")
    base = os.environ.get("TRAINSTACK_CPU_BASE", "debian:trixie-slim")
    image = "trainstack/trainer-bench"
    build = ["docker", "build", "--quiet", "--file=Dockerfile_training", "--target=cpu", f"--tag={image}"]
    done = subprocess.run(
        [*build, f"--build-arg=CPU_BASE={base}", "."], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return Bench(image)


@pytest.fixture(scope="session")
def thorough(request: pytest.FixtureRequest) -> bool:
    """Whether to measure as often as the page's figures were; else once, so that all of it takes an hour."""
    return bool(request.config.getoption("--thorough"))


@pytest.fixture(scope="session")
def commits(request: pytest.FixtureRequest) -> dict[str, str]:
    """What is measured in turns -> its commit: the working tree, which has none, and what `--before` names."""
    before: str = request.config.getoption("--before")
    return {NOW: "", **({before: before} if before else {})}


@pytest.fixture(scope="session", autouse=True)
def machine(request: pytest.FixtureRequest) -> Iterator[str]:
    """Name the machine above the tables, and how busy it was: times of a busy machine are worth little."""
    model = next(
        line.split(": ")[1] for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    )
    name = f"{processes.cores()} cores of {model}"
    show(request, f"\n{name}, Linux {platform.release()}, load {os.getloadavg()[0]:.2f}\n")
    yield name
    show(request, f"\nload at the end {os.getloadavg()[0]:.2f}\n")


@pytest.fixture(scope="session")
def data_folder(request: pytest.FixtureRequest, thorough: bool) -> Iterator[Path]:
    """Where data go; at the end the plots of what is there are drawn beside them."""
    folder = measured.FOLDER if thorough else LOCAL / "benchmarks"
    yield folder
    for picture in plots.draw(folder):
        show(request, f"plot: {picture}")


@pytest.fixture(scope="module")
def record(request: pytest.FixtureRequest, machine: str, data_folder: Path) -> Recorder:
    """Writes a benchmark's data."""
    before = request.config.getoption("--before")
    options = " --thorough" if data_folder == measured.FOLDER else ""
    options += f" --before {before}" if before else ""
    command = f'make bench ARGS="{request.path.relative_to(ROOT)}{options}"'

    def write(name: str, rows: list[dict[str, Any]]) -> None:
        today = datetime.now(UTC).date().isoformat()
        measured.Measured(today, machine, command, rows).write(data_folder / f"{name}.json")

    return write


def show(request: pytest.FixtureRequest, text: str) -> None:
    """Print past pytest's capture."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print(text, flush=True)


def table(head: str, rows: list[list[str]]) -> str:
    columns = head.split("|")
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.strip() for cell in line) + " |" for line in lines)

"""The container engine and everything in it killed at once, and a reboot: it comes back with what it held.

In namespaces of its own, so that this machine's engine stays as it is: the test's processes are their own process tree,
their mounts and network are theirs, and the engine's folders are the test's.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.project import ROOT
from tests.faults.table.trial import Trial
from toolchain.paths import cache

BUSYBOX = Path("debian/busybox-static/bin/busybox")

START = """
set -eu
mount --make-rprivate /
ip link set lo up
export TRAINSTACK_MACHINE={machine}
export DOCKER_HOST=unix://$TRAINSTACK_MACHINE/run/docker.sock
start() {{
    cd {root} && python3 -c 'from toolchain.machine.engine import daemon; daemon.start()'
    {probe}
}}
make_container() {{
    tar -C {image} -c . | docker import - probe:1
    docker run --detach --privileged --name probe --restart on-failure:1 --publish 127.0.0.1::80 \\
        --volume probe:/kept probe:1 /busybox sh -c '/busybox date +%s%N >> /kept/started; exec /busybox sleep 1000'
    docker exec probe /busybox sh -c 'echo by hand > /note'
}}
probe() {{
    docker start probe
    docker exec probe /busybox cat /note
    docker exec probe /busybox sh -c 'test $(/busybox wc -l < /kept/started) -ge '"$1"
}}
"""
# How the engine ends; `$pid` is the process id of dockerd. In every case its socket and pid files stay.
ENDS = {
    "all at once, mounts left": "kill -9 -1; sleep 1",
    "dockerd alone": 'kill -9 "$pid"; sleep 1',
    "dockerd and containerd": 'kill -9 "$pid" $(cat $TRAINSTACK_MACHINE/run/docker/containerd/containerd.pid); sleep 1',
}
SELECTED = "all at once, mounts left"
SLOW = pytest.mark.slow(reason="an end that is a part of the selected one")


@pytest.fixture
def machine() -> Iterator[Path]:
    """A short path: those of sockets below it hold at most 108 characters."""
    with tempfile.TemporaryDirectory(prefix="ts-", ignore_cleanup_errors=True) as name:
        image = Path(name) / "image"
        image.mkdir()
        shutil.copy2(cache() / BUSYBOX, image / "busybox")
        yield Path(name)


def inside(machine: Path, script: str) -> str:
    """Run `script` as process 1 of namespaces of its own; when it ends, the kernel kills all that it left."""
    start = START.format(
        machine=machine / "machine", root=ROOT, image=machine / "image", probe="docker version > /dev/null"
    )
    done = subprocess.run(
        ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "bash", "-c", start + script],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, f"{done.stdout}\n{log(machine)}"
    return done.stdout


def log(machine: Path) -> str:
    file = machine / "machine" / "dockerd.log"
    return file.read_text(errors="replace")[-3000:] if file.exists() else ""


@pytest.mark.row("engine-killed")
@pytest.mark.parametrize(
    "end",
    [pytest.param(end, id=name, marks=[SLOW] if name != SELECTED else []) for name, end in ENDS.items()],
)
def test_a_killed_engine_comes_back_with_what_it_held(
    machine: Path, trial: Trial, request: pytest.FixtureRequest, end: str
) -> None:
    struck = "date +%s.%N > $TRAINSTACK_MACHINE/struck"
    said = inside(
        machine,
        f"start; make_container; pid=$(cat $TRAINSTACK_MACHINE/run/docker.pid); {struck}; {end}\nstart; probe 2",
    )
    trial.strike(request.node.callspec.id, float((machine / "machine" / "struck").read_text()))
    trial.recovered()
    assert "by hand" in said


@pytest.mark.row("machine-restarted")
@pytest.mark.parametrize("run_folder_is_gone", [False, True], ids=["power cut", "reboot"])
def test_a_restarted_machine_gets_its_containers_back(
    machine: Path, trial: Trial, run_folder_is_gone: bool
) -> None:
    """Mounts, network and processes are gone; a tmpfs would be, too."""
    inside(machine, "start; make_container")
    trial.strike("reboot" if run_folder_is_gone else "power cut")
    assert (machine / "machine" / "run" / "docker.pid").exists(), "or this test shows nothing"
    if run_folder_is_gone:
        shutil.rmtree(machine / "machine" / "run")
    assert "by hand" in inside(machine, "start; probe 2")
    trial.recovered()

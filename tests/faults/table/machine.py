"""A machine inside this one that can lose its power: processes, mounts, network and container engine of its own.

It has this machine's files and the loopback device alone: nothing in it touches this machine's engine, bridges or
packet filter. Images of Debian's packages, which cannot be made without a network, come from this machine's engine.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from infra.config.image import ImageConfig
from infra.image import inputs
from infra.image.providers import BuiltImageProvider
from tests.e2e import processes
from tests.e2e.project import ROOT, Project
from toolchain.images import control_plane, node
from toolchain.machine.engine import Engine

# With a cluster on it, there is to be the room that `make up` asks for.
SIZE_GIB = 12
CGROUPS = Path("/sys/fs/cgroup")
# Made here where no image registry is in reach; a machine without a network can have no other.
MADE_HERE = ("NODE_IMAGE", "CPU_BASE", "INIT_IMAGE", "REGISTRY_IMAGE", "OPERATOR_IMAGE")
# Process 1 takes in whatever process has lost its parent.
BOOT = """
set -eu
mount --make-rprivate /
mount -t tmpfs run /run
mount -t tmpfs run {folder}/run
ip link set lo up
echo booted
exec 0<&- 1<&-
sleep infinity &
while :; do wait; done
"""


@dataclass
class Machine:
    """`folder` is the engine's disk; it and this machine's files are all that outlives `cut_power`."""

    folder: Path
    _power: subprocess.Popen[str] | None = None

    @property
    def containers(self) -> Path:
        """Where the engine has a folder for each container, whether it runs or not."""
        return self.folder / "docker" / "containers"

    def boot(self) -> None:
        """With nothing in /run, no process and no mount of before."""
        (self.folder / "run").mkdir(parents=True, exist_ok=True)
        unshare = ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc"]
        self._power = subprocess.Popen(
            [*unshare, "bash", "-c", BOOT.format(folder=self.folder)], stdout=subprocess.PIPE, text=True
        )
        assert self._power.stdout
        assert self._power.stdout.readline() == "booted\n"

    def cut_power(self) -> None:
        """The kernel kills every process in it at once. What had been written to files stays."""
        if self._power is None:
            return
        os.kill(self._first(), signal.SIGKILL)
        while self._power.poll() is None:
            self._thaw()
            time.sleep(0.1)
        self._power = None
        self._forget_cgroups()

    def _thaw(self) -> None:
        """Let its frozen processes end: in version 1 of control groups, not even -9 ends them.

        runc freezes a container for a moment when it starts it. A power cut leaves nothing frozen.
        """
        for container in self.containers.glob("*"):
            for state in CGROUPS.glob(f"freezer/docker/{container.name}/**/freezer.state"):
                with suppress(OSError):
                    state.write_text("THAWED")

    def _first(self) -> int:
        """Its process 1, by its id here."""
        assert self._power
        (first,) = processes.children(self._power.pid)
        return first

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """A MiB is left for the engine while the block lasts: what it writes until the size is set needs it."""
        self._resize(f"{(shutil.disk_usage(self.folder).used >> 10) + 1024}k")
        try:
            yield
        finally:
            self._resize(f"{SIZE_GIB}g")

    def _resize(self, size: str) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size}", str(self.folder)], check=True)

    def _forget_cgroups(self) -> None:
        """A kernel that starts knows none of the containers' groups."""
        for container in self.containers.glob("*"):
            for group in CGROUPS.glob(f"*/docker/{container.name}"):
                for place, _, _ in os.walk(group, topdown=False):
                    with suppress(OSError):
                        os.rmdir(place)

    def entered(self, root: Path) -> list[str]:
        """The words before a command that is to run in it, in the folder `root`."""
        engine = f"unix://{self.folder}/run/docker.sock"
        enter = ["nsenter", f"--target={self._first()}", "--mount", "--net", "--pid"]
        return [
            *enter,
            "env",
            f"--chdir={root}",
            f"TRAINSTACK_MACHINE={self.folder}",
            f"DOCKER_HOST={engine}",
        ]


@dataclass
class ProjectInside(Project):
    """A clone whose commands run in `machine`."""

    machine: Machine = field(kw_only=True)

    def words(self, *command: str) -> list[str]:
        return [*self.machine.entered(self.root), *command]


@contextmanager
def booted(folder: Path) -> Iterator[Machine]:
    """A machine whose engine has a disk of its own, mounted at `folder`; it loses its power when the block ends.

    The disk is memory: quick, and of a size that can be changed. An engine with a cluster takes about 5 GiB of it.
    """
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE_GIB}g", "disk", str(folder)], check=True)
    machine = Machine(folder)
    try:
        machine.boot()
        yield machine
    finally:
        machine.cut_power()
        subprocess.run(["umount", str(folder)], check=True)


def give_images(engine: Engine, project: ProjectInside) -> None:
    """Have the machine's engine hold what `make up` could only make from Debian's packages."""
    start = "from toolchain.machine.engine import daemon; daemon.start()"
    subprocess.run(project.words("python3", "-c", start), check=True)
    save = subprocess.Popen(
        [engine.docker, "save", *images()], env={**os.environ, **engine.env}, stdout=subprocess.PIPE
    )
    subprocess.run(project.words("docker", "load"), stdin=save.stdout, check=True)
    assert save.wait() == 0


def images() -> list[str]:
    """Those of nodes, operator and trainer, in this machine's engine."""
    missing = {f"TRAINSTACK_{name}" for name in MADE_HERE} - os.environ.keys()
    assert not missing, f"published images are used here, and a machine without a network has none: {missing}"
    found = [os.environ[f"TRAINSTACK_{name}"] for name in MADE_HERE]
    build = inputs.build(ImageConfig(), ROOT)
    source = {"target": build.target.value, "arguments": dict(build.arguments), "tag": build.tag}
    trainer = BuiltImageProvider().create(source).outs
    assert trainer
    return [*found, node.DEBIAN.image, control_plane.PROXY.image, trainer["image"]]

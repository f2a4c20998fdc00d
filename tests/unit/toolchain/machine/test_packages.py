"""Packages: no service of theirs starts, now or at the next boot, and a killed installation is finished."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.conftest import Fake
from toolchain.images import scratch
from toolchain.machine import locks, packages
from toolchain.steps import SetupError

FILES = ("POLICY", "RECORD", "THERE", "MARKED", "REMOVING", "BEFORE", "LOG", "DPKG_LOCK", "UNITS")
"""What `packages` reads and writes: the constants' names."""
SOMEBODY_ELSES = "#!/bin/sh\n# of the image\nexit 101\n"


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for module in (packages, locks):
        monkeypatch.setattr(module, "MACHINE", tmp_path)
    for name in FILES:
        monkeypatch.setattr(packages, name, tmp_path / name.lower())
    return tmp_path


@pytest.fixture
def apt(fake: Fake, tmp_path: Path) -> Path:
    """apt-get and dpkg that write down what they see; the machine's packages are lines of a file."""
    known = tmp_path / "known"
    known.write_text("ii base\n")
    fake("dpkg-query", f"cat {known}")
    fake("dpkg", f'echo "dpkg $* policy=$(test -e {packages.POLICY} && echo yes)" >> {tmp_path}/calls')
    fake("update-rc.d", f'echo "update-rc.d $*" >> {tmp_path}/calls')
    fake("apt-mark", f'echo "apt-mark $*" >> {tmp_path}/calls')
    fake(
        "apt-get",
        f'test "$1" = --simulate && exit\n'
        f'echo "$1 policy=$(test -e {packages.POLICY} && echo yes)" >> {tmp_path}/calls\n'
        f"case $1 in install) for name in docker.io mmdebstrap; do\n"
        f'    case " $* " in *" $name "*) echo "ii $name" >> {known} ;; esac; done ;; esac',
    )
    return tmp_path / "calls"


def enable(folder: Path, *services: str) -> None:
    wants = folder / "units" / "multi-user.target.wants"
    wants.mkdir(parents=True)
    for service in services:
        (wants / service).symlink_to(f"/lib/systemd/system/{service}")


def test_services_are_forbidden_while_packages_are_installed(apt: Path) -> None:
    packages.install(["docker.io"])
    assert apt.read_text().splitlines()[:2] == ["update policy=", "install policy=yes"]
    assert "apt-mark auto docker.io" in apt.read_text(), "nobody has asked for it by name"
    assert not packages.POLICY.exists()
    assert packages.RECORD.read_text() == "docker.io\n"


def test_what_is_there_by_now_is_not_asked_for_again(apt: Path) -> None:
    """Two that need the same package find it missing; apt takes what is asked for twice for wanted by somebody."""
    packages.install(["mmdebstrap"])
    apt.write_text("")
    packages.install(["mmdebstrap"])
    assert apt.read_text() == ""
    packages.install(["mmdebstrap", "docker.io"])
    assert packages.RECORD.read_text().split() == ["mmdebstrap", "docker.io"]


def test_the_systems_own_engine_does_not_start_at_the_next_boot(apt: Path, tmp_path: Path) -> None:
    enable(tmp_path, "docker.service", "containerd.service", "ssh.service")
    packages.install(["docker.io"])
    assert [link.name for link in tmp_path.glob("units/*/*")] == ["ssh.service"]
    assert "update-rc.d docker disable" in apt.read_text()


def test_an_engine_that_was_there_before_stays_enabled(apt: Path, tmp_path: Path) -> None:
    enable(tmp_path, "docker.service")
    packages.install(["mmdebstrap"])
    assert [link.name for link in tmp_path.glob("units/*/*")] == ["docker.service"]


def test_somebody_elses_policy_stays(apt: Path) -> None:
    packages.POLICY.write_text(SOMEBODY_ELSES)
    packages.install(["docker.io"])
    packages.finish_interrupted()
    assert packages.POLICY.read_text() == SOMEBODY_ELSES


KILLED = """
import sys, pathlib
from toolchain.images import scratch
from toolchain.machine import locks, packages
folder = pathlib.Path(sys.argv[1])
for module in (packages, locks):
    module.MACHINE = folder
for name in sys.argv[2:]:
    setattr(packages, name, folder / name.lower())
packages.install(["docker.io"])
"""


@pytest.fixture
def killed(apt: Path, fake: Fake, tmp_path: Path) -> None:
    """An installation whose process was killed with -9 after apt had unpacked its package."""
    fake(
        "apt-get",
        f'test "$1" = install && {{ echo "ii docker.io" >> {tmp_path}/known; kill -9 $PPID; }}; exit 0',
    )
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), *FILES], capture_output=True)
    assert done.returncode == -9, done.stderr


def test_a_killed_installation_is_finished_by_the_next_run(killed: None, apt: Path, tmp_path: Path) -> None:
    assert packages.POLICY.exists(), "or this test shows nothing"
    enable(tmp_path, "docker.service")

    packages.finish_interrupted()

    assert not packages.POLICY.exists()
    assert packages.RECORD.read_text() == "docker.io\n", "`make clean` has to know of it"
    assert "dpkg --configure -a policy=yes" in apt.read_text()
    assert not list(tmp_path.glob("units/*/docker.service"))


def test_its_ban_stays_while_its_apt_still_runs(killed: None) -> None:
    packages.BEFORE.unlink()
    with packages.DPKG_LOCK.open("w") as held:
        code = "import fcntl,sys; f=open(sys.argv[1],'r+'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); input()"
        apt = subprocess.Popen(
            [sys.executable, "-c", code, held.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert apt.stdout
        apt.stdout.readline()
        packages.finish_interrupted()
        assert packages.POLICY.exists()
        apt.communicate(b"\n")
    packages.finish_interrupted()
    assert not packages.POLICY.exists()


def test_an_unpacked_package_is_whole_or_not_there(fake: Fake, tmp_path: Path) -> None:
    fake("apt-get", 'test "$1" = update || touch busybox-static_1_amd64.deb')
    fake("dpkg-deb", 'mkdir -p "$3/bin"; echo half > "$3/bin/busybox"; exit 1')
    with pytest.raises(SetupError):
        packages.unpack("busybox-static", tmp_path / "cache" / "busybox-static")
    assert not list((tmp_path / "cache").iterdir())
    fake("dpkg-deb", 'mkdir -p "$3/bin"; echo whole > "$3/bin/busybox"')
    packages.unpack("busybox-static", tmp_path / "cache" / "busybox-static")
    assert (tmp_path / "cache/busybox-static/bin/busybox").read_text() == "whole\n"


@pytest.mark.parametrize("folder", ["bin", "usr/bin"])
def test_a_program_is_found_where_its_debian_has_it(fake: Fake, tmp_path: Path, folder: str) -> None:
    """Debian 13 has nothing in /bin any more."""
    fake("apt-get", 'test "$1" = update || touch busybox-static_1_amd64.deb')
    fake("dpkg-deb", f'mkdir -p "$3/{folder}"; echo whole > "$3/{folder}/busybox"')
    found = scratch.debian_program("busybox-static", "busybox", tmp_path / "cache")
    assert found == tmp_path / "cache/busybox-static" / folder / "busybox"
    fake("apt-get", "exit 1")
    assert scratch.debian_program("busybox-static", "busybox", tmp_path / "cache") == found
    fake("apt-get", 'test "$1" = update || touch catatonit_1_amd64.deb')
    with pytest.raises(SetupError, match="catatonit"):
        scratch.debian_program("catatonit", "catatonit", tmp_path / "cache")

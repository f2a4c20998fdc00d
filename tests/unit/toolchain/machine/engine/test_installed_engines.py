"""Nothing is installed where somebody has installed a container engine, running or not."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from toolchain.machine import locks, packages, preflight
from toolchain.machine.engine import daemon, service
from toolchain.steps import SetupError

# Programs and packages of an engine that does not run -> its name, and the command that starts it.
ENGINES = {
    "Docker CE": (
        ["dockerd", "docker", "systemctl"],
        ["docker-ce", "containerd.io"],
        "Docker (",
        "systemctl start docker",
    ),
    "a dockerd without systemd": (["dockerd"], [], "Docker (", "service docker start"),
    "Docker CE's containerd": (
        ["systemctl"],
        ["containerd.io"],
        "the containerd of Docker CE",
        "apt-get install docker-ce && sudo systemctl start docker",
    ),
    "Podman": (["podman"], ["podman"], "Podman (", "systemctl start podman.socket"),
}
NONE = {
    "nothing": ([], []),
    "a lone docker client": (["docker"], ["docker-ce-cli"]),
    "configuration that was left": ([], ["rc containerd.io"]),
}

# Debian's release -> the package that holds the docker client.
CLIENT_OF = {12: "docker.io", 13: "docker-cli"}
Machine = Callable[[list[str], list[str]], Path]


@pytest.fixture(params=CLIENT_OF)
def release(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: int) -> Machine:
    """A Debian with these programs and packages and no others; returns the file of what apt was asked to do."""
    folder, done = tmp_path / "bin", tmp_path / "done"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr(daemon, "DATA", tmp_path / "data")
    monkeypatch.setattr(daemon, "SOCKET", tmp_path / "socket")
    monkeypatch.setattr(daemon, "HOME", tmp_path / "home")
    monkeypatch.setattr(packages, "available", lambda: True)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(locks, "MACHINE", tmp_path)
    for name in ("POLICY", "BEFORE", "REMOVING"):
        monkeypatch.setattr(packages, name, tmp_path / name.lower())
    monkeypatch.setattr(packages, "install", lambda names: install(names))
    monkeypatch.setattr(daemon, "start", lambda: done.open("a").write("started"))

    def install(names: list[str]) -> None:
        with done.open("a") as file:
            file.write(f"{' '.join(names)} ")
        if CLIENT_OF[release] in names:
            program("docker", "exit 1")

    def program(name: str, script: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    def make(programs: list[str], installed: list[str]) -> Path:
        for name in programs:
            program(name, "exit 1")
        lines = [line if " " in line else f"ii {line}" for line in [*installed, "base"]]
        program("dpkg-query", "\n".join(f"echo '{line}'" for line in lines))
        return done

    return make


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "ask", [service.ensure, lambda: preflight.check(builds=False)], ids=["ensure", "preflight"]
)
def test_an_installed_engine_is_named_with_the_command_that_starts_it(
    machine: Machine, engine: str, ask: Callable[[], object]
) -> None:
    programs, installed, name, command = ENGINES[engine]
    done = machine(programs, installed)
    with pytest.raises(SetupError) as refusal:
        ask()
    assert refusal.value.what.startswith(name)
    assert "installs no second engine beside it" in refusal.value.what
    assert command in refusal.value.fix
    assert not done.exists(), "nothing was installed or started"


@pytest.mark.parametrize("case", NONE)
def test_without_one_debians_is_installed(machine: Machine, release: int, case: str) -> None:
    programs, installed = NONE[case]
    done = machine(programs, installed)
    with pytest.raises(SetupError, match="does not answer"):  # it is not a real one
        service.ensure()
    client = "" if release == 12 or "docker" in programs else "docker-cli "
    assert done.read_text() == f"docker.io iptables iproute2 {client}started"


@pytest.mark.parametrize("release", [13], indirect=True)
def test_an_engine_that_was_installed_without_its_client_gets_it(machine: Machine) -> None:
    done = machine(["dockerd"], ["docker.io", "iptables", "iproute2"])
    with pytest.raises(SetupError, match="does not answer"):
        service.ensure()
    assert done.read_text() == "docker-cli started"


@pytest.mark.parametrize("state", ["ii", "iU", "iF", "iH"])
def test_debians_own_is_none_of_others_also_half_configured(machine: Machine, state: str) -> None:
    machine(["dockerd"], [f"{state} docker.io"])
    service.may_install()

"""`make doctor`: each check on a machine that is fit, and on one that is not; what `make up` refuses to begin."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from infra.cluster_kinds import ClusterKind
from tests.unit.conftest import Fake
from toolchain import __main__ as command
from toolchain import stack_files
from toolchain.images import cluster_images
from toolchain.machine import engine, inotify, preflight, processes
from toolchain.machine.engine import Engine
from toolchain.operating import api_server, doctor, environment
from toolchain.operating.state import Access
from toolchain.operating.status import Health
from toolchain.steps import SetupError
from toolchain.tools import build, installed, venv

Machine = dict[str, Any]
ROOMY = SimpleNamespace(total=2**40, used=2**39, free=2**39)


def refused(what: str) -> Callable[..., None]:
    def refuse(*_: object, **__: object) -> None:
        raise SetupError(what, "mend it")

    return refuse


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A fit machine, whose answers a test may change: an engine of ours, tools built, version 2 of control groups."""
    answers: Machine = {"engine": Engine("docker", ours=True), "other": None, "images": True, "pulls": False}
    stack = "config:\n  trainstack:job:\n    epochs: 1\n"
    own = {name: installed.Choice(name, Path("/usr/bin") / name) for name in installed.MODULES}
    stacks, groups = tmp_path / "stacks", tmp_path / "cgroup"
    stacks.mkdir()
    groups.mkdir()
    (stacks / "Pulumi.dev.yaml").write_text(stack)
    (groups / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    (tmp_path / "max_user_instances").write_text("128\n")
    descriptors = tmp_path / "processes" / "1" / "fd"
    descriptors.mkdir(parents=True)
    for number in range(100):
        (descriptors / str(number)).symlink_to("anon_inode:inotify")
    (descriptors / "100").symlink_to("anon_inode:[eventpoll]")
    for name in (*doctor.PROXIES, "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for module, name, value in (
        (engine, "find", lambda: answers["engine"]),
        (engine, "other", lambda: answers["other"]),
        (engine, "may_install", lambda: None),
        (cluster_images, "all_built", lambda *_: answers["images"]),
        (cluster_images, "has_published", lambda _: False),
        (cluster_images, "reaches_published", lambda _: answers["pulls"]),
        (installed, "choose", lambda: own),
        (venv, "check_pip", lambda: None),
        (venv, "is_complete", lambda: False),
        (build, "check_go", lambda: None),
        (preflight, "needs", lambda **_: [(tmp_path / "cache", 1)]),
        (preflight, "check_access", lambda _: None),
        (stack_files, "STACKS", stacks),
        (doctor, "CGROUPS", groups),
        (inotify, "INSTANCES", tmp_path / "max_user_instances"),
        (processes, "PROC", tmp_path / "processes"),
        (os, "geteuid", lambda: 0),
        (shutil, "disk_usage", lambda _: ROOMY),  # others write to it, too
    ):
        monkeypatch.setattr(module, name, value)
    cluster_images._in_reach.cache_clear()
    answers |= {"own": own, "stacks": stacks, "groups": groups, "descriptors": descriptors}
    return answers


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


def no_pip(machine: Machine, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(venv, "check_pip", refused("no ensurepip"))


def no_snapd(machine: Machine, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(environment, "cluster_kind", lambda _: ClusterKind.MICROK8S)
    patch.setattr(shutil, "which", lambda _: None)


def no_go(machine: Machine, patch: pytest.MonkeyPatch) -> None:
    machine["engine"], machine["images"] = None, False
    patch.setattr(build, "check_go", refused("Go is not installed"))


def full_disk(machine: Machine, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(preflight, "needs", lambda **_: [(machine["stacks"], 2**60)])


def others_files(machine: Machine, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(preflight, "check_access", refused("somebody else's"))


def no_engine(machine: Machine, patch: pytest.MonkeyPatch) -> None:
    machine["engine"] = None
    patch.setattr(engine, "may_install", refused("only root can"))


def silent_docker(machine: Machine, patch: pytest.MonkeyPatch) -> None:
    machine["engine"], machine["other"] = None, engine.Installed("Docker CE", "start it")


def no_memory_group(machine: Machine, patch: pytest.MonkeyPatch) -> None:
    (machine["groups"] / "cgroup.controllers").write_text("cpu pids\n")


def four_clusters(machine: Machine, patch: pytest.MonkeyPatch) -> None:
    """With one watch more than leaves room for a node."""
    for number in range(101, 103):
        (machine["descriptors"] / str(number)).symlink_to("anon_inode:inotify")


def proxy(machine: Machine, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("https_proxy", "http://user:secret@proxy.example:3128")


def broken_tools(machine: Machine, patch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OSError("an input/output error")

    patch.setattr(installed, "choose", fail)


def taken_port(machine: Machine, patch: pytest.MonkeyPatch) -> None:
    text = "config:\n  trainstack:cluster:\n    apiServerPort: 16443\n"
    (machine["stacks"] / "Pulumi.dev.yaml").write_text(text)
    patch.setattr(doctor, "_answers", lambda port: port == 16443)


UNFIT: dict[str, tuple[Callable[[Machine, pytest.MonkeyPatch], None], Health]] = {
    "pip": (no_pip, Health.NOT),
    "cluster": (no_snapd, Health.NOT),
    "tools": (broken_tools, Health.UNKNOWN),
    "go": (no_go, Health.UNKNOWN),
    "disk": (full_disk, Health.NOT),
    "files": (others_files, Health.NOT),
    "engine": (no_engine, Health.NOT),
    "others": (silent_docker, Health.NOT),
    "ports": (taken_port, Health.UNKNOWN),
    "cgroups": (no_memory_group, Health.NOT),
    "inotify": (four_clusters, Health.NOT),
    "proxies": (proxy, Health.NOT),
}


def checks(capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, dict[str, str]]]:
    status = command.main(["doctor", "--json"])
    return status, {each["what"]: each for each in json.loads(capsys.readouterr().out)["checks"]}


def test_a_fit_machine(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    status, found = checks(capsys)
    assert (status, {each["health"] for each in found.values()}) == (0, {"ok"})
    assert command.main(["doctor"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(doctor.checks("dev"))


def test_every_check_fails_somewhere() -> None:
    assert set(doctor.checks("dev")) == {*UNFIT, "python"}, "of Python, toolchain/__init__.py says it before"


@pytest.mark.parametrize("check", UNFIT)
def test_an_unfit_machine_is_told_what_to_do(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], check: str
) -> None:
    make_unfit, expected = UNFIT[check]
    make_unfit(machine, monkeypatch)
    status, found = checks(capsys)
    assert found[check]["health"] == {Health.NOT: "not ok", Health.UNKNOWN: "unknown"}[expected]
    assert found[check]["fix"] or check == "tools"
    assert status in (expected, Health.NOT), "another check may fail with it"
    assert status != 0
    assert command.main(["doctor"]) == status
    assert found[check]["said"].splitlines()[0] in capsys.readouterr().out


ALL = frozenset(installed.MODULES)
WITHOUT_GO = {
    # Missing tools, engine, images built, images can be pulled, nodes made with kind -> how Go is.
    "all is there": (frozenset(), True, True, False, True, Health.HEALTHY),
    "Docker, which pulls": (frozenset(), True, False, True, True, Health.HEALTHY),
    "Docker, which pulls, and no kubectl": (frozenset({"kubectl"}), True, False, True, True, Health.HEALTHY),
    "Docker, which pulls, and no kind": (frozenset({"kind"}), True, False, True, True, Health.NOT),
    "Docker, and no kind for a cluster that is there": (
        frozenset({"kind"}),
        True,
        False,
        True,
        False,
        Health.HEALTHY,
    ),
    "Docker, which reaches no registry": (frozenset(), True, False, False, True, Health.NOT),
    "no engine yet, and every tool": (frozenset(), False, False, False, True, Health.UNKNOWN),
    "no engine yet, and no kubectl": (frozenset({"kubectl"}), False, False, False, True, Health.UNKNOWN),
    "nothing but Debian": (ALL, False, False, False, True, Health.NOT),
}


@pytest.mark.parametrize("case", WITHOUT_GO)
def test_go_is_asked_for_where_something_has_to_be_built(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    missing, engine_answers, images, pulls, nodes, expected = WITHOUT_GO[case]
    machine["own"] |= {name: installed.Choice(name, None) for name in missing}
    monkeypatch.setattr(installed.Choice, "is_available", property(lambda each: each.own is not None))
    monkeypatch.setattr(build, "check_go", refused("Go is not installed"))
    machine |= {"images": images, "pulls": pulls}
    machine["engine"] = Engine("docker", ours=False) if engine_answers else None
    if expected is Health.NOT:
        with pytest.raises(SetupError, match="Go is not installed"):
            doctor.go(nodes)
    else:
        assert doctor.go(nodes)[0] is expected


def test_a_registry_is_asked_once(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Engine] = []

    def ask(answering: Engine) -> bool:
        asked.append(answering)
        return True

    machine["images"] = False
    monkeypatch.setattr(cluster_images, "reaches_published", ask)
    command.main(["doctor"])
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("available", "pulls", "nodes", "said"),
    [
        (ALL, False, True, "pulumi /usr/bin/pulumi, kind /usr/bin/kind, kubectl /usr/bin/kubectl"),
        (ALL - {"kubectl"}, True, True, "kubectl from kind's node image"),
        (ALL - {"kubectl"}, False, True, "kubectl to be built"),
        (ALL - {"kind"}, True, False, "kind not needed"),
    ],
)
def test_where_each_tool_comes_from(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    available: frozenset[str],
    pulls: bool,
    nodes: bool,
    said: str,
) -> None:
    machine["own"] |= {name: installed.Choice(name, None) for name in ALL - available}
    monkeypatch.setattr(installed.Choice, "is_available", property(lambda each: each.own is not None))
    machine |= {"images": False, "pulls": pulls}
    assert said in doctor.tools(nodes)[1]


def test_no_password_of_a_proxy_is_shown(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    proxy(machine, monkeypatch)
    command.main(["doctor"])
    assert "secret" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("excepted", "fit"),
    [
        ("", False),
        ("localhost", False),
        ("127.0.0.1,example.org", False),
        ("localhost, 127.0.0.1", True),
        ("127.0.0.1,localhost,.svc", True),
        ("*", True),
    ],
)
def test_a_proxy_that_leaves_this_machine_alone(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, excepted: str, fit: bool
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", excepted)
    assert (doctor.proxies()[0] is Health.HEALTHY) == fit


def test_version_1_of_control_groups(machine: Machine) -> None:
    (machine["groups"] / "cgroup.controllers").unlink()
    for name in ("cpu,cpuacct", "memory", "pids", "systemd"):
        (machine["groups"] / name).mkdir()
    assert doctor.cgroups() == (Health.HEALTHY, "version 1 with cpu, memory, pids")
    (machine["groups"] / "memory").rmdir()
    assert doctor.cgroups()[:2] == (Health.NOT, "version 1 without memory")


def test_a_port_is_in_use_only_where_something_listens(machine: Machine, listening: int) -> None:
    file = machine["stacks"] / "Pulumi.dev.yaml"
    file.write_text(f"config:\n  trainstack:cluster:\n    apiServerPort: {listening} # ours\n")
    assert doctor.ports()[:2] == (Health.UNKNOWN, f"in use: {listening} (Pulumi.dev.yaml)")
    file.write_text("config:\n  trainstack:cluster:\n    kind: kind\n")
    assert doctor.ports()[0] is Health.HEALTHY


def test_of_roots_inotify_nobody_else_claims_to_know(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    four_clusters(machine, monkeypatch)
    assert doctor.watches()[0] is Health.NOT
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    health, *said = doctor.watches()
    assert (health, "in use" in said[0]) == (Health.HEALTHY, False)


def test_an_engine_of_the_users_is_used(machine: Machine) -> None:
    machine["engine"] = Engine("docker", ours=False)
    machine["other"] = engine.Installed("Docker CE", "start it")
    assert doctor.other_engines() == (Health.HEALTHY, "Docker CE, which is used")
    assert doctor.container_engine()[0] is Health.HEALTHY


@pytest.fixture
def stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of stack files; no packages are there, no kubeconfig, and no tool."""
    monkeypatch.setattr(stack_files, "STACKS", tmp_path)
    monkeypatch.setattr(venv, "is_complete", lambda: False)
    monkeypatch.setattr(environment, "access", lambda _: None)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(installed, "choose", lambda: {"kubectl": installed.Choice("kubectl", None)})
    monkeypatch.setattr(installed.Choice, "is_available", property(lambda each: each.own is not None))
    return tmp_path


def write(folder: Path, text: str) -> None:
    (folder / "Pulumi.own.yaml").write_text(text)


def test_a_cluster_that_kind_makes(stacks: Path) -> None:
    write(stacks, "")
    assert doctor.cluster("own") == (Health.HEALTHY, "made with kind")


@pytest.mark.parametrize(
    ("program", "health"), [("microk8s", Health.HEALTHY), ("snap", Health.HEALTHY), ("other", Health.NOT)]
)
def test_microk8s_is_a_snap(stacks: Path, fake: Fake, program: str, health: Health) -> None:
    write(stacks, "config:\n  trainstack:cluster: {kind: microk8s}\n")
    fake(program, "exit 0")
    assert doctor.cluster("own")[0] is health


@pytest.mark.parametrize("place", ["usual", "variable", "stack file"])
def test_a_cluster_that_is_there(
    stacks: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    write(stacks, "config:\n  trainstack:cluster: {kind: existing}\n")
    health, *said = doctor.cluster("own")
    assert health is Health.NOT
    assert "its kubeconfig is missing" in said[0]
    assert "export KUBECONFIG=" in said[1]
    file = stacks / "home" / ".kube" / "config" if place == "usual" else stacks / "elsewhere"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("")
    if place == "variable":
        monkeypatch.setenv("KUBECONFIG", f"{stacks}/nothing:{file}")
    if place == "stack file":
        monkeypatch.setattr(environment, "access", lambda _: Access(str(file), "theirs"))
    health, *said = doctor.cluster("own")
    assert (health, str(file) in said[0], "not asked" in said[0]) == (Health.HEALTHY, True, True)
    kubectl = installed.Choice("kubectl", stacks / "kubectl")
    monkeypatch.setattr(installed, "choose", lambda: {"kubectl": kubectl})
    for why, expected in ((None, Health.HEALTHY), ("connection refused", Health.NOT)):

        def problem(variables: object, access: Access, why: str | None = why) -> str | None:
            assert access == Access(str(file), "theirs" if place == "stack file" else None)
            return why

        monkeypatch.setattr(api_server, "problem", problem)
        health, *said = doctor.cluster("own")
        assert (health, (why or "answers") in said[0]) == (expected, True)


@pytest.mark.parametrize(
    ("cluster", "there", "used", "is_refused"),
    [
        ("trainstack-dev", False, 102, True),
        ("trainstack-dev", False, 101, False),
        ("trainstack-dev", True, 128, False),
        (None, False, 128, False),
    ],
    ids=["a new node lacks some", "there are enough", "the cluster is there", "the cluster is others'"],
)
def test_a_node_that_could_not_watch_its_files_is_not_made(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    cluster: str | None,
    there: bool,
    used: int,
    is_refused: bool,
) -> None:
    (limit := tmp_path / "limit").write_text("128\n")
    for number in range(used):
        (descriptors := tmp_path / str(number) / "fd").mkdir(parents=True)
        (descriptors / "3").symlink_to("anon_inode:inotify")
    monkeypatch.setattr(inotify, "INSTANCES", limit)
    monkeypatch.setattr(processes, "PROC", tmp_path)
    monkeypatch.setattr(environment, "cluster", lambda stack: cluster)
    before = {"resources": [{"type": "kubernetes:core/v1:Namespace"}] * there}
    if not is_refused:
        doctor.ensure_node_possible(before, "dev")
        return
    with pytest.raises(SetupError, match="102 of 128 instances in use") as refused:
        doctor.ensure_node_possible(before, "dev")
    assert "max_user_instances=512" in str(refused.value)

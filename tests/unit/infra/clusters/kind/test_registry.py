"""The registry of a kind cluster: whose it is, what it asks for, and who knows the answer."""

from __future__ import annotations

import io
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import bcrypt
import pytest

from infra import docker, paths
from infra.clusters.kind import login, registry
from infra.clusters.kind.providers import ConnectionProvider, RegistryProvider

NAME = "c-registry"
PROPS = {"name": NAME, "image": "registry:3"}


class RegistryContainer:
    """Stands for docker: at most one container, what was run, and what it was told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self.told: dict[str, str] = {}
        self.made = 0
        self.found: dict[str, Any] | None = None
        monkeypatch.setattr(docker, "container", lambda name: self.found)
        monkeypatch.setattr(docker, "execute", self.execute)
        monkeypatch.setattr(registry, "output", self.run)

    def stands(self, **labels: str) -> dict[str, Any]:
        """A container with these labels that runs."""
        self.made += 1
        self.found = {
            "Config": {"Labels": labels},
            "State": {"Running": True, "Paused": False},
            "HostConfig": {"RestartPolicy": {"Name": registry.RESTART}},
            "NetworkSettings": {"Networks": {}},
            "Id": str(self.made),
        }
        return self.found

    def run(self, *command: str, stdin: str | None = None) -> str:
        self.calls.append(" ".join(command))
        if stdin is not None:
            self.told[" ".join(command)] = stdin
        if command[1] == "rm":
            self.found = None
        if command[1] == "create":
            given = [command[at + 1] for at, word in enumerate(command) if word == "--label"]
            self.stands(**dict(label.split("=", 1) for label in given))["State"]["Running"] = False
        if command[1] in ("start", "unpause"):
            assert self.found
            self.found["State"] = {"Running": True, "Paused": False}
        return ""

    def execute(self, node: str, *command: str, stdin: str | None = None) -> str:
        return self.run("exec", node, *command, stdin=stdin)

    def called(self, verb: str) -> list[str]:
        return [call for call in self.calls if call.startswith(f"docker {verb} ")]


@pytest.fixture
def container(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> RegistryContainer:
    """No registry yet, in a clone without a password."""
    monkeypatch.setattr(paths, "STATE", tmp_path / ".trainstack")
    return RegistryContainer(monkeypatch)


def made(container: RegistryContainer) -> dict[str, Any]:
    """The state of a registry that was just made; its calls are forgotten."""
    outs = RegistryProvider().create(PROPS).outs or {}
    container.calls.clear()
    return outs


def test_it_lets_in_the_clones_password_and_knows_no_more_than_its_bcrypt(
    container: RegistryContainer,
) -> None:
    RegistryProvider().create(PROPS)
    (create,), (told,) = container.called("create"), container.told.values()
    for setting in ("REGISTRY_AUTH=htpasswd", "REGISTRY_AUTH_HTPASSWD_PATH=/htpasswd"):
        assert f"--env {setting}" in create
    with tarfile.open(fileobj=io.BytesIO(told.encode("ascii"))) as archive:
        (entry,) = archive.getmembers()
        file = archive.extractfile(entry)
        assert (entry.name, entry.mode, entry.uid, entry.gid) == ("htpasswd", 0o600, 0, 0)
        assert file
        user, _, hashed = file.read().decode().strip().partition(":")
    assert user == login.USER
    assert bcrypt.checkpw(login.password().encode(), hashed.encode())
    verbs = [call.split()[1] for call in container.calls]
    assert verbs == ["volume", "create", "cp", "start"], "it never runs without its login"


def test_the_password_is_in_no_command_and_no_state(container: RegistryContainer) -> None:
    outs = RegistryProvider().create(PROPS).outs or {}
    link = {"registry": NAME, "container": "1", "instance": "i", "nodes": ["c-control-plane"]}
    outs |= ConnectionProvider().create(link).outs or {}
    told = str(outs) + " ".join(container.calls)
    for secret in (login.password(), login.basic()):
        assert secret not in told


def test_pods_cannot_have_the_registry_delete_anything(container: RegistryContainer) -> None:
    RegistryProvider().create(PROPS)
    assert "--env REGISTRY_STORAGE_DELETE_ENABLED=false" in container.called("create")[0]


def test_the_volume_is_the_clones_own(
    container: RegistryContainer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    RegistryProvider().create(PROPS)
    ours = registry.volume()
    assert container.called("volume") == [
        f"docker volume create --label {registry.PROJECT}={paths.ROOT} {ours}"
    ]
    assert f"--volume {ours}:/var/lib/registry" in container.called("create")[0]
    monkeypatch.setattr(paths, "ROOT", tmp_path / "another clone")
    assert registry.volume() != ours


def test_the_clusters_of_a_clone_share_volume_and_login(container: RegistryContainer) -> None:
    for name in ("a-registry", "b-registry"):
        container.found = None
        RegistryProvider().create({"name": name, "image": "registry:3"})
    first, second = container.called("create")
    assert first.replace("a-registry", "b-registry") == second


def test_the_password_is_made_once_and_read_by_its_owner_alone(container: RegistryContainer) -> None:
    first = login.password()
    assert len(first) == 64
    assert login.password() == first
    assert paths.registry_password().stat().st_mode & 0o777 == 0o600
    assert list(paths.registry_password().parent.iterdir()) == [paths.registry_password()]


def test_whoever_makes_the_password_second_takes_the_first_ones(
    container: RegistryContainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    login._make(paths.registry_password())
    first = login.password()
    login._make(paths.registry_password())
    assert login.password() == first


def test_the_nodes_containerd_logs_in_and_only_root_reads_how(container: RegistryContainer) -> None:
    nodes = ["c-control-plane", "c-worker"]
    ConnectionProvider().create({"registry": NAME, "container": "1", "instance": "i", "nodes": nodes})
    folder = "/etc/containerd/certs.d/c-registry:5000"
    files = [f"exec {node} install --mode=600 /dev/stdin {folder}/hosts.toml" for node in nodes]
    assert list(container.told) == files
    for text in container.told.values():
        server = tomllib.loads(text)
        assert server["server"] == "http://c-registry:5000", "without TLS"
        ((url, host),) = server["host"].items()
        assert url == server["server"]
        for entry in (server, host):
            assert entry["header"] == {"Authorization": [login.authorization()]}
            assert set(entry["capabilities"]) == {"pull", "resolve"}


OLDER = {"without a login": {}, "with another login": {registry.LOGIN: "0" * 16}}


@pytest.mark.parametrize("labels", OLDER.values(), ids=OLDER.keys())
def test_a_registry_that_does_not_ask_for_our_login_is_replaced(
    container: RegistryContainer, labels: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    container.stands(**{registry.PROJECT: str(paths.ROOT), **labels})
    olds = {**PROPS, "container": "1"}
    difference = RegistryProvider().diff(NAME, olds, PROPS)
    assert (difference.changes, difference.replaces) == (True, ["name"])
    assert difference.delete_before_replace
    assert "registry c-registry" in capsys.readouterr().out, "it says why"
    RegistryProvider().delete(NAME, olds)
    new = RegistryProvider().create(PROPS).outs or {}
    assert container.called("rm") == [f"docker rm --force {NAME}"]
    assert new["container"] != olds["container"], "so that nodes and images follow"
    assert RegistryProvider().diff(NAME, new, PROPS).changes is False


def test_a_lost_password_is_made_anew_and_the_registry_with_it(container: RegistryContainer) -> None:
    outs = made(container)
    paths.registry_password().unlink()
    assert RegistryProvider().diff(NAME, outs, PROPS).replaces == ["name"]


def test_a_registry_of_our_name_that_is_not_ours_is_left_alone(container: RegistryContainer) -> None:
    container.stands(**{registry.PROJECT: "/another/clone"})
    with pytest.raises(registry.ForeignRegistryError, match="fix: "):
        registry.create(NAME, "registry:3")
    assert registry.own(NAME) is None
    assert container.calls == []


@pytest.mark.parametrize("paused", [False, True])
def test_a_registry_that_does_not_run_is_started_and_stays_the_same_container(
    container: RegistryContainer, paused: bool
) -> None:
    olds = made(container)
    assert container.found
    container.found["State"] = {"Running": paused, "Paused": paused}
    container.found["HostConfig"]["RestartPolicy"]["Name"] = "no"

    difference = RegistryProvider().diff(NAME, olds, PROPS)
    assert (difference.changes, difference.replaces) == (True, [])
    found = RegistryProvider().read(NAME, olds)

    assert (found.outs or {})["container"] == olds["container"]
    assert container.calls == [
        f"docker update --restart unless-stopped {NAME}",
        f"docker {'unpause' if paused else 'start'} {NAME}",
    ]
    assert RegistryProvider().diff(NAME, olds, PROPS).changes is False


def test_a_newer_registry_image_replaces_nothing(
    container: RegistryContainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    olds = made(container) | {"image": "registry:2", "project": "/work"}
    assert RegistryProvider().diff(NAME, olds, PROPS).changes is False
    monkeypatch.setenv("TRAINSTACK_REPLACE_CLUSTER", "yes")
    assert RegistryProvider().diff(NAME, olds, PROPS).replaces == ["image"]

"""The trainer image's inputs, and bringing it where it is pulled from."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from infra import docker, paths
from infra.clusters import registries
from infra.clusters.kind import login
from infra.config.image import ImageConfig, Target
from infra.image import inputs, push
from infra.image.providers import BuiltImageProvider, RegistryImageProvider
from infra.image.push import logged_in
from infra.process import CommandError
from tests.unit.infra.image.test_project import root, tags

__all__ = ["root"]

OURS, THEIRS = "sha256:" + "1" * 64, "sha256:" + "2" * 64


def test_tag_and_identity_follow_what_goes_into_the_image(root: Path) -> None:
    first = tags(root)
    (root / "README.md").write_text("not in the image")
    (root / "trainer" / "__pycache__").mkdir()
    (root / "trainer" / "__pycache__" / "train.pyc").write_text("not either")
    assert tags(root) == first
    (root / "trainer" / "train.py").write_text("pass  # changed\n")
    second = tags(root)
    assert not second.items() & first.items()
    (root / "Dockerfile_training").write_text("FROM y AS cpu\n")
    assert not tags(root).items() & second.items()


@pytest.mark.parametrize("changes", [{"target": "gpu"}, {"preset": "traindb"}])
def test_target_and_preset_make_another_image(root: Path, changes: dict[str, str]) -> None:
    assert not tags(root, **changes).items() & tags(root).items()


def test_an_image_is_the_same_wherever_it_is_pushed(root: Path) -> None:
    assert tags(root, repository="ghcr.io/you/trainer") == tags(root)
    for name in ("ghcr.io/you/trainer", "localhost:5000/mine:tag"):
        assert tags(root, reference=f"{name}@{OURS}")["identity"] == OURS


def test_the_dockerfile_names_its_bases_by_digest() -> None:
    lines = (paths.ROOT / inputs.DOCKERFILE).read_text().splitlines()
    bases = [line for line in lines if line.startswith("ARG ") and "_BASE=" in line]
    assert len(bases) == len(inputs.BASES)
    assert all("@sha256:" in line for line in bases), bases


def test_only_the_bases_that_the_target_builds_on_count(root: Path) -> None:
    environment = {"TRAINSTACK_CPU_BASE": "mine", "TRAINSTACK_GPU_BASE": "other"}
    assert inputs.arguments(ImageConfig(), environment) == {"CPU_BASE": "mine"}
    both = {"CPU_BASE": "mine", "GPU_BASE": "other"}  # the digits' table comes from a stage on the CPU base
    assert inputs.arguments(ImageConfig(target=Target.GPU), environment) == both


CHANGES: dict[str, Callable[[Path], object]] = {
    "nothing": lambda root: None,
    "a file changed": lambda root: (root / "trainer" / "train.py").write_text("changed\n"),
    "a file added": lambda root: (root / "trainer" / "added.py").touch(),
    "a file gone": lambda root: (root / "trainer" / "train.py").unlink(),
    "the Dockerfile gone": lambda root: (root / "Dockerfile_training").unlink(),
    "the folder gone": lambda root: (root / "trainer").rename(root / "gone"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_trainer_is_built_from_what_its_tag_was_made_from(
    root: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    built: list[dict[str, str]] = []

    def docker_build(folder: Path, *_: object) -> None:
        built.append({str(file.relative_to(folder)): file.read_text() for file in inputs.files(folder)})

    monkeypatch.setattr(paths, "ROOT", root)
    monkeypatch.setattr(push, "docker_build", docker_build)
    monkeypatch.setattr(docker, "has_image", lambda _: False)
    monkeypatch.setattr(docker, "ensure_answers", lambda: None)
    props = {"target": "cpu", "arguments": {}, "tag": tags(root)["tag"]}
    CHANGES[change](root)
    if change == "nothing":
        BuiltImageProvider().create(props)
        assert built == [{"Dockerfile_training": "FROM x AS cpu\n", "trainer/train.py": "pass\n"}]
    else:
        with pytest.raises(CommandError, match="sources changed during its build; run the same command"):
            BuiltImageProvider().create(props)
        assert built == [], "an image of that tag would be kept for ever"


HOST = "127.0.0.1:5000"


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, ...]]:
    """What docker is asked. Somebody else's image stands in the registry under our tag."""
    run: list[tuple[str, ...]] = []

    def output(*command: str, env: dict[str, str] | None = None) -> str:
        run.append(command[:2])
        if command[1] == "push":
            settings = json.loads((Path((env or {})["DOCKER_CONFIG"]) / "config.json").read_text())
            assert settings["auths"] == {registries.address_for_host("c-registry"): {"auth": login.basic()}}
        return f"elsewhere/trainer@{THEIRS}\n{HOST}/trainer@{OURS}\n" if "inspect" in command else ""

    monkeypatch.setattr(paths, "STATE", tmp_path)
    monkeypatch.setattr(push, "output", output)
    monkeypatch.setattr(registries, "address_for_host", lambda name: HOST)
    return run


PUSH = [("docker", "tag"), ("docker", "push"), ("docker", "image"), ("docker", "rmi")]


def test_the_digest_is_the_engines_whatever_a_tag_of_the_registry_stands_for(
    commands: list[tuple[str, ...]], tmp_path: Path
) -> None:
    props = {"image": "trainer:1", "registry": "c-registry", "container": "x"}
    props |= {"repository": "trainer", "tag": "1"}
    made = RegistryImageProvider().create(props).outs or {}
    assert made["reference"] == f"c-registry:5000/trainer@{OURS}"
    assert commands == PUSH, "it is pushed in any case, and named no longer by its port"
    assert [path.name for path in tmp_path.iterdir()] == ["registry"], "the login was for that push alone"


def test_a_push_without_a_digest_is_an_error(
    commands: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registries, "address_for_host", lambda name: "127.0.0.1:6000")
    with pytest.raises(CommandError, match="knows no digest"):
        push.to_registry("trainer:1", "c-registry", "trainer", "1")
    assert commands == PUSH, "its name is taken back"


class Registry(BaseHTTPRequestHandler):
    """Has one image, and shows it to whoever knows the password."""

    wanted = ""

    def do_HEAD(self) -> None:
        let_in = self.headers["Authorization"] == self.wanted
        there = self.path == f"/v2/trainer/manifests/{OURS}"
        self.send_response(401 if not let_in else 200 if there else 404)
        self.end_headers()

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ThreadingHTTPServer]:
    monkeypatch.setattr(paths, "STATE", tmp_path)
    monkeypatch.setattr(Registry, "wanted", login.authorization())
    with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as listening:
        address = f"127.0.0.1:{listening.server_port}"
        monkeypatch.setattr(registries, "address_for_host", lambda name: address)
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield listening
        listening.shutdown()


def test_an_image_lost_from_the_registry_is_pushed_anew(
    server: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    props = {"registry": "c-registry", "repository": "trainer", "tag": "1", "digest": OURS}
    assert RegistryImageProvider().read("x", props).id == "x", "whatever its tag stands for now"
    assert RegistryImageProvider().read("x", props | {"digest": THEIRS}).id == ""
    monkeypatch.setattr(login, "authorization", lambda: "Basic wrong")
    assert RegistryImageProvider().read("x", props).id == ""


def test_a_registry_that_ends_while_it_is_asked_has_nothing(
    server: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Registry, "do_HEAD", lambda self: self.connection.close())
    assert not push.in_registry("c-registry", "trainer", OURS)


@pytest.mark.parametrize("kept", [None, "not JSON", "[]", '{"credsStore": "pass", "currentContext": "mine"}'])
def test_docker_logs_in_to_our_registry_and_keeps_the_users_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kept: str | None
) -> None:
    monkeypatch.setattr(paths, "STATE", tmp_path / "state")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "user"))
    (tmp_path / "user" / "contexts").mkdir(parents=True)
    if kept is not None:
        (tmp_path / "user" / "config.json").write_text(kept)
    with logged_in(HOST, "secret") as variables:
        folder = Path(variables["DOCKER_CONFIG"])
        settings = json.loads((folder / "config.json").read_text())
        assert settings.pop("auths") == {HOST: {"auth": "secret"}}
        assert settings == ({"currentContext": "mine"} if kept and "mine" in kept else {})
        assert (folder / "contexts").samefile(tmp_path / "user" / "contexts")
        assert folder.stat().st_mode & 0o077 == 0
    assert not folder.exists()
    if kept is not None:
        assert (tmp_path / "user" / "config.json").read_text() == kept

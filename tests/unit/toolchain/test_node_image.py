"""What a node image is named by: all that goes into it, and nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import ClassVar, cast

import pytest

from tests.unit.conftest import Fake
from toolchain.images import base, control_plane, node, scratch
from toolchain.images.base import RootFileSystem
from toolchain.machine.engine import Engine
from toolchain.tools.go_modules import CALLED_AS


@pytest.fixture
def parts(tmp_path: Path) -> tuple[dict[str, Path], Path]:
    program, files = tmp_path / "kubelet", tmp_path / "files"
    program.write_text("program")
    files.mkdir()
    (files / "entrypoint").write_text("kind's")
    return {"kubelet": program}, files


def name(parts: tuple[dict[str, Path], Path], version: str = "v1.34.4", restricted: bool = False) -> str:
    return node.image_name(version, *parts, restricted)


@pytest.mark.parametrize(
    ("module", "part", "value"),
    [
        (node, "DOCKERFILE", Path(__file__)),
        (node, "CNI_TEMPLATE", {}),
        (node, "CONTAINERD_ADDITION", ""),
        (node, "IMPORT", ""),
        (node, "PAUSE", "registry.k8s.io/pause:3.11"),
        (node, "NODE_PROGRAMS", ("kubelet",)),
        (node, "DEBIAN", RootFileSystem("base-node", "trixie")),
        (control_plane, "PROXY", RootFileSystem("base-proxy", "trixie")),
        (control_plane, "LINES", {}),
        (scratch, "build", name),
    ],
)
def test_another_part_is_another_image(
    parts: tuple[dict[str, Path], Path],
    monkeypatch: pytest.MonkeyPatch,
    module: object,
    part: str,
    value: object,
) -> None:
    before = name(parts)
    monkeypatch.setattr(module, part, value)
    assert name(parts) != before


def test_programs_kinds_files_and_the_host_count_too(parts: tuple[dict[str, Path], Path]) -> None:
    before = name(parts)
    others = {name(parts, "v1.35.0"), name(parts, restricted=True)}
    (parts[1] / "entrypoint").write_text("another")
    others.add(name(parts))
    parts[0]["kubelet"].write_text("another program")
    others.add(name(parts))
    assert len(others - {before}) == 4


class PlayedEngine:
    """Keeps what it is asked to build and to tag."""

    docker = "docker"
    env: ClassVar[dict[str, str]] = {}

    def __init__(self) -> None:
        self.built: dict[str, list[str]] = {}
        self.tagged: dict[str, str] = {}

    def output(self, verb: str, image: str, name: str) -> str:
        assert verb == "tag"
        self.tagged[name] = image
        return ""


def test_all_programs_of_kubernetes_are_one_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node holds their common file once."""
    (tmp_path / "kubernetes").write_text("all of them")
    programs = {name: tmp_path / name for name in ("kubernetes", "etcd", *CALLED_AS["kubernetes"])}
    (tmp_path / "etcd").write_text("etcd")
    for name in CALLED_AS["kubernetes"]:
        programs[name].symlink_to("kubernetes")
    engine = PlayedEngine()

    def played(command: list[str | Path], **options: object) -> None:
        *_, image, context = command
        root = Path(context) / "root/usr/local/bin"
        engine.built[str(image)] = sorted(each.name for each in root.iterdir() if not each.is_symlink())
        assert all(each.resolve().is_file() for each in root.iterdir())

    monkeypatch.setattr(scratch, "run", played)
    monkeypatch.setattr(base, "ensure", lambda *_: "base")
    names = [f"registry.k8s.io/{name}:v1" for name in (*CALLED_AS["kubernetes"], "etcd")]
    assert control_plane.ensure(cast(Engine, engine), names, programs, tmp_path / "log") == names
    assert engine.built == {names[0]: ["kubernetes"], names[-1]: ["etcd"]}
    assert engine.tagged == dict.fromkeys(names[1:-1], names[0])


def test_a_link_to_what_an_image_does_not_hold_becomes_a_copy(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("program")
    (tmp_path / "link").symlink_to("real")
    scratch.copy_executables({"bin/link": tmp_path / "link"}, tmp_path / "root")
    copied = tmp_path / "root" / "bin" / "link"
    assert (copied.is_symlink(), copied.read_text()) == (False, "program")


@pytest.mark.parametrize("status", [0, 1])
def test_an_import_that_fails_behind_its_last_byte_fails(fake: Fake, tmp_path: Path, status: int) -> None:
    """Its images would be missing in every cluster made of what is committed."""
    fake("containerd", "exec sleep 600")
    fake("ctr", f'[ "$1" = version ] && exit 0\ncat >/dev/null\nexit {status}')
    script = node.IMPORT.replace("/run/containerd", str(tmp_path / "run"))
    done = subprocess.run(["/bin/sh", "-c", script], input=b"x" * 100_000, capture_output=True)
    assert done.returncode == status

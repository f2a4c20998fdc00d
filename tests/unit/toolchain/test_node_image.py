"""What a node image is named by: all that goes into it, and nothing else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from toolchain.images import control_plane, node, scratch
from toolchain.images.base import RootFileSystem


@pytest.fixture
def parts(tmp_path: Path) -> tuple[dict[str, Path], Path]:
    program, files = tmp_path / "kubelet", tmp_path / "files"
    program.write_text("program")
    files.mkdir()
    (files / "entrypoint").write_text("kind's")
    return {"kubelet": program}, files


def name(parts: tuple[dict[str, Path], Path], version: str = "v1.34.4", restricted: bool = False) -> str:
    return node.image_name(version, *parts, restricted)


def test_a_changed_dockerfile_is_another_image(
    parts: tuple[dict[str, Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = name(parts)
    changed = tmp_path / "node.Dockerfile"
    changed.write_text(node.DOCKERFILE.read_text() + "RUN true\n")
    monkeypatch.setattr(node, "DOCKERFILE", changed)
    assert name(parts) != before


@pytest.mark.parametrize(
    ("module", "part", "value"),
    [
        (node, "CNI_TEMPLATE", {}),
        (node, "CONTAINERD_ADDITION", ""),
        (node, "IMPORT", ""),
        (node, "PAUSE", "registry.k8s.io/pause:3.11"),
        (node, "NODE_PROGRAMS", ("kubelet",)),
        (node, "DEBIAN", RootFileSystem("base-node", "trixie")),
        (control_plane, "PROXY", RootFileSystem("base-proxy", "trixie")),
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


@pytest.mark.parametrize("status", [0, 1])
def test_an_import_that_fails_behind_its_last_byte_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """Its images would be missing in every cluster made of what is committed."""
    for program, script in (
        ("containerd", "exec sleep 600"),
        ("ctr", f'[ "$1" = version ] && exit 0\ncat >/dev/null\nexit {status}'),
    ):
        (tmp_path / program).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    script = node.IMPORT.replace("/run/containerd", str(tmp_path / "run"))
    done = subprocess.run(["/bin/sh", "-c", script], input=b"x" * 100_000, capture_output=True)
    assert done.returncode == status

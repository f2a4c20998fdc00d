"""All that is downloaded is there for amd64 and arm64: packages with their wheels, tools with their sources."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from toolchain.paths import ROOT, TOOL_MODULES
from toolchain.tools import go_modules, venv

ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}
# Those with Python packages that run on the user's machine; the GPU image's are for amd64 alone, as PyTorch's is.
LOCKS = sorted(path.name for path in ROOT.glob("requirements*.lock"))
# What they come with is left out on purpose: tests read one file of it.
WITHOUT_DEPENDENCIES = ("requirements-browser.lock",)
PLATFORMS = [*(f"{name}-manylinux_2_28" for name in ARCHITECTURES.values()), "aarch64-apple-darwin"]
NETWORK = pytest.mark.slow(
    reason="asks the package index, or Go's module proxy where a module is not in the cache"
)


def installed(lock: Path, platform: str, python: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What uv would install on another machine, of wheels alone."""
    uv = venv.find_uv()
    there = ["--python-platform", platform, "--python-version", python, "--target", str(folder / "packages")]
    command = [
        str(uv),
        "pip",
        "install",
        "--dry-run",
        "--no-build",
        "--require-hashes",
        *(["--no-deps"] if lock.name in WITHOUT_DEPENDENCIES else []),
        *there,
        "-r",
        str(lock),
    ]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **venv.uv_cache(uv)}, capture_output=True, text=True
    )


@NETWORK
@pytest.mark.parametrize("lock", LOCKS)
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("python", ["3.11", "3.13"])  # Debian 12's and 13's
def test_every_locked_package_has_a_wheel(tmp_path: Path, lock: str, platform: str, python: str) -> None:
    done = installed(ROOT / lock, platform, python, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Would install" in done.stderr


@NETWORK
def test_a_machine_that_packages_have_no_wheels_for_is_found(tmp_path: Path) -> None:
    """Else the test above shows nothing."""
    done = installed(ROOT / "requirements.lock", "riscv64-unknown-linux", "3.13", tmp_path)
    assert done.returncode != 0
    assert "no usable wheels" in done.stderr, done.stderr


@NETWORK
@pytest.mark.parametrize("name", sorted(path.name for path in TOOL_MODULES.iterdir() if path.is_dir()))
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_tool_has_sources(name: str, architecture: str) -> None:
    asked = ["go", "list", "-deps", "-e", "-f", "{{with .Error}}{{.}}{{end}}"]
    chosen = {"GOOS": "linux", "GOARCH": architecture, "CGO_ENABLED": "0"}
    flags = {"GOFLAGS": "-mod=readonly -buildvcs=false", "GOWORK": "off", "GOTOOLCHAIN": "auto"}
    done = subprocess.run(
        [*asked, *go_modules.load(name).packages],
        cwd=TOOL_MODULES / name,
        env={**os.environ, **chosen, **flags},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_no_tool_and_no_image_of_ours_is_made_for_a_named_architecture() -> None:
    """Each is made for the machine that makes it. The base of the GPU image is refused by name where it cannot be."""
    modules = [path for path in (ROOT / "toolchain").rglob("*.py") if path.name != "gpu_base.py"]
    others = [ROOT / "Dockerfile_training", *(ROOT / "toolchain" / "images").glob("*.Dockerfile")]
    words = (*ARCHITECTURES, *ARCHITECTURES.values(), "GOARCH", "--platform")
    named = {path.name for path in [*modules, *others] for word in words if word in path.read_text()}
    assert named == set()

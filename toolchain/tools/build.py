"""Builds tools from their Go modules into the per-user cache.

A build is written to a temporary folder and then renamed, so the cache holds only whole builds. A lock per module
prevents two runs from building the same module.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

from toolchain.machine import locks
from toolchain.paths import LOGS, TOOL_MODULES, cache
from toolchain.steps import SetupError, run, say, step
from toolchain.tools import go_modules
from toolchain.tools.go_modules import CALLED_AS, Module

GO_NEEDED = (1, 25)
STEP = "build "
"""The name of each build step begins with this."""

# Two builds at the same time compile shared code twice, and take as long as two builds in turn: measuring.md.
_compiler = threading.Lock()
# DWARF is for debuggers. The linker leaves it out anyway (-s -w), so the compiler does not have to write it. The cache
# folder's name does not depend on this option: tools that were built with and without it are equally good.
NO_DWARF = "-gcflags=all=-dwarf=false"
CACHES = ("GOCACHE", "GOMODCACHE")


def built(name: str, *binaries: str) -> Path | None:
    """The `bin` folder of an earlier build of a module, with `binaries` or all its binaries; None if there is none."""
    return _built(go_modules.load(name), *binaries)


def _built(module: Module, *binaries: str) -> Path | None:
    for packages in {module.packages, module.packages_for(*binaries) if binaries else module.packages}:
        folder = cache() / "tools" / module.folder(packages) / "bin"
        if folder.is_dir():
            return folder
    return None


def build(name: str, *binaries: str) -> Path:
    """Build `binaries`, or all, of a module of toolchain/tools/go; returns the `bin` folder. Raises SetupError."""
    module = go_modules.load(name)
    if found := _built(module, *binaries):
        return found
    check_go()
    note_missing_caches()
    packages = module.packages_for(*binaries) if binaries else module.packages
    tools = cache() / "tools"
    with (
        step(f"{STEP}{module.name} {module.version}") as progress,
        locks.held(tools / f".{module.name}.lock"),
    ):
        if found := _built(module, *binaries):
            return found
        for left_over in tools.glob(f".{module.name}-*"):
            shutil.rmtree(left_over, ignore_errors=True)
        target = tools / module.folder(packages)
        place = Path(tempfile.mkdtemp(prefix=f".{module.name}-", dir=tools))
        progress.note("downloading its modules")
        _go(module, "list", "-deps", *packages)
        progress.note("waiting for the compiler")
        with _compiler:
            progress.note("compiling")
            _go(
                module,
                "build",
                "-trimpath",
                NO_DWARF,
                "-ldflags",
                module.ldflags,
                "-o",
                f"{place / 'bin'}/",
                *packages,
            )
        for name, links in CALLED_AS.items():
            if (place / "bin" / name).exists():
                for link in links:
                    (place / "bin" / link).symlink_to(name)
        place.chmod(0o755)
        place.rename(target)
        return target / "bin"


def source(name: str, path: str, folder: str) -> Path:
    """A copy in the cache of `folder` of the Go module `path`, at the version that our module `name` pins.

    With the copy, a later run needs neither Go nor its module cache. Raises SetupError.
    """
    module, sources = go_modules.load(name), cache() / "sources"
    target = sources / f"{module.name}-{module.version}-{module.digest[:12]}" / folder
    if target.is_dir():
        return target
    with locks.held(sources / f".{module.name}.lock"):
        if not target.is_dir():
            _copy_source(module, path, folder, target)
    return target


def _copy_source(module: Module, path: str, folder: str, target: Path) -> None:
    check_go(f"files of {path} are needed")
    _go(module, "mod", "download", path)
    cmd = ["go", "list", "-m", "-f", "{{.Dir}}", path]
    asked = subprocess.run(
        cmd, cwd=TOOL_MODULES / module.name, env=_environment(), capture_output=True, text=True
    )
    found = Path(asked.stdout.strip()) / folder
    if asked.returncode or not found.is_dir():
        raise SetupError(
            f"Go finds no {folder} in {path}: {asked.stderr.strip()}",
            "run `go clean -modcache`, then the same command again",
        )
    part = Path(tempfile.mkdtemp(prefix=".part-", dir=cache() / "sources"))
    # Go's module cache is read-only. `make clean` could not delete a read-only copy.
    shutil.copytree(found, part / "copy", copy_function=shutil.copyfile)
    for copied in (part / "copy", *(part / "copy").rglob("*")):
        copied.chmod(0o755 if copied.is_dir() else 0o644)
    target.parent.mkdir(parents=True, exist_ok=True)
    (part / "copy").rename(target)
    part.rmdir()


def check_go(what_for: str = "some tools have to be built") -> None:
    """Raise SetupError, which says `what_for`, if PATH has no Go that can build the tools."""
    fix = "install Go 1.25 or newer and put its bin folder on PATH"
    if not shutil.which("go"):
        raise SetupError(f"{what_for}, and Go is not installed", fix)
    said = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True).stdout.strip()
    numbers = re.match(r"go(\d+)\.(\d+)", said)
    if numbers and tuple(map(int, numbers.groups())) < GO_NEEDED:
        raise SetupError(f"{what_for}, and Go {said.removeprefix('go')} is too old", fix)


def _go(module: Module, *arguments: str) -> None:
    run(
        ["go", *arguments],
        log=LOGS / f"build-{module.name}.log",
        cwd=TOOL_MODULES / module.name,
        env=_environment(),
    )


def _environment() -> dict[str, str]:
    # The user's own flags or workspace must not change what the pinned modules build.
    # GOTOOLCHAIN: Go 1.25 downloads the newer Go that some of the modules need.
    return {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly -buildvcs=false",
        "GOWORK": "off",
        "GOTOOLCHAIN": "auto",
    }


def note_missing_caches() -> None:
    """Before the first build, record which of Go's caches do not exist yet: `clean_caches` empties only these."""
    record = cache() / "go-caches"
    if record.exists():
        return
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(
        "".join(f"{name}\n" for name, folder in _cache_folders().items() if not folder.exists())
    )


def clean_caches() -> None:
    """Empty the Go caches that our builds created, and name the others. Without `go` on PATH, all stay."""
    record = cache() / "go-caches"
    if not record.exists():
        return
    ours = record.read_text().split()
    is_here = shutil.which("go") is not None
    for name, option in zip(CACHES, ("-cache", "-modcache"), strict=True):
        if not is_here:
            say(f"kept: Go's {name}, because no `go` is on PATH (`go clean {option}` empties it)")
        elif name in ours:
            subprocess.run(["go", "clean", option], check=False)
        else:
            say(f"kept: Go's {name}, which was here before (`go clean {option}` empties it)")


def _cache_folders() -> dict[str, Path]:
    asked = subprocess.run(["go", "env", *CACHES], capture_output=True, text=True, check=True)
    return dict(zip(CACHES, map(Path, asked.stdout.split("\n")), strict=False))

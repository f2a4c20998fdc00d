"""Go's two caches. One that existed before our first build is the user's; otherwise it is ours to remove."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from toolchain.paths import cache
from toolchain.steps import say

NAMES = ("GOCACHE", "GOMODCACHE")


def note_missing() -> None:
    """Before the first build: write down which of the caches this machine did not have."""
    record = cache() / "go-caches"
    if record.exists():
        return
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text("".join(f"{name}\n" for name, folder in _folders().items() if not folder.exists()))


def clean() -> None:
    """Empty the caches that we brought; name the others."""
    record = cache() / "go-caches"
    if not record.exists():
        return
    ours = record.read_text().split()
    is_here = shutil.which("go") is not None
    for name, option in zip(NAMES, ("-cache", "-modcache"), strict=True):
        if not is_here:
            say(f"kept: Go's {name}, as no `go` is found to ask where it is (`go clean {option}` empties it)")
        elif name in ours:
            subprocess.run(["go", "clean", option], check=False)
        else:
            say(f"kept: Go's {name}, which was here before us (`go clean {option}` empties it)")


def _folders() -> dict[str, Path]:
    asked = subprocess.run(["go", "env", *NAMES], capture_output=True, text=True, check=True)
    return dict(zip(NAMES, map(Path, asked.stdout.split("\n")), strict=False))

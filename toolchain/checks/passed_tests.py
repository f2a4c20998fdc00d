"""Which tests have passed in a long suite, so that an interrupted run is taken up where it stopped."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from toolchain.paths import LOCAL, ROOT

FOLDER = LOCAL / "passed"


def file(suite: str) -> Path:
    """The list for `suite` on the files as they are now. Lists for other files are removed: they say nothing."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    present = FOLDER / f"{suite}-{_fingerprint()}"
    for old in FOLDER.glob(f"{suite}-*"):
        if old != present:
            old.unlink()
    return present


def _fingerprint() -> str:
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    digest = hashlib.sha256()
    for name in sorted(set(filter(None, names))):
        path = ROOT / name
        digest.update(f"{name}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest() if path.is_file() else b"")
    return digest.hexdigest()[:16]

"""The committed stack files."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STACKS = sorted(path.name for path in (ROOT / "stacks").glob("Pulumi.*.yaml"))


def committed(name: str) -> str | None:
    """The file as HEAD holds it; None where there is no git to ask."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        return None
    asked = subprocess.run(["git", "show", f"HEAD:stacks/{name}"], cwd=ROOT, capture_output=True, text=True)
    return asked.stdout if asked.returncode == 0 else None


@pytest.mark.parametrize("name", STACKS)
def test_no_salt_of_a_clones_own_passphrase_is_committed(name: str) -> None:
    text = committed(name)
    if text is None:
        pytest.skip("not committed here")
    salted = re.search(r"^encryptionsalt:", text, re.MULTILINE)
    assert not salted or "secure:" in text, (
        "git's filter was not set when this was committed; commit it again"
    )

"""README's transcript of a first change."""

from __future__ import annotations

import re
from pathlib import Path

from tests.runbooks.transcript import Command, parse

README = Path(__file__).resolve().parents[2] / "README.md"
HEADING = "A first change"


def first_change() -> list[Command]:
    """The commands of that section, in order, with the output that README shows."""
    section = re.search(rf"^## {HEADING}\n.*?(?=^## |\Z)", README.read_text(), re.MULTILINE | re.DOTALL)
    assert section, f"README.md has no section {HEADING!r}"
    return [command for block in parse("README", section[0]).blocks for command in block.commands]

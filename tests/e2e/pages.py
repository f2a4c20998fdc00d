"""The blocks of a page below docs/, by heading: tests take files, stack files and commands from there."""

from __future__ import annotations

import re

from tests.e2e.project import ROOT

HEADING = re.compile(r"^## (.*)$", re.MULTILINE)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(page: str) -> dict[str, list[tuple[str, str]]]:
    """Heading -> language and text of the blocks below it; what stands before the first heading has none."""
    first, *parts = HEADING.split((ROOT / "docs" / page).read_text())
    return {
        heading: BLOCK.findall(part)
        for heading, part in zip(["", *parts[::2]], [first, *parts[1::2]], strict=True)
    }


def of(page: str, heading: str, language: str) -> list[str]:
    """The blocks of one language below a heading."""
    return [text for found, text in blocks(page)[heading] if found == language]

"""docs/tutorial.md as data: its commands with what they print, and the pictures that show their terminals."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.paths import ROOT
from tests.runbooks import transcript
from tests.runbooks.transcript import Command

PAGE = ROOT / "docs" / "tutorial.md"
FOLDER = ROOT / "docs" / "tutorial"
REPORT = FOLDER / "report.png"
"""The first screen of the run's report, in a browser."""

LIVE = "-live"
"""The end of a picture's name that shows the terminal while the command runs."""

_LINK = re.compile(r"^!\[(?P<says>[^\]]*)\]\(tutorial/(?P<name>[\w-]+)\.svg\)$")
_PARTIAL_BAR = re.compile(r"epoch \d+/\d+ ━+─+ .* images/s")


@dataclass(frozen=True)
class Step:
    """One command.

    Parameters:
        pictures: names of those of its terminal.
    """

    command: Command
    pictures: tuple[str, ...]


def steps() -> list[Step]:
    """The commands of the page; a picture shows the last command above it. Raises TranscriptError."""
    lines = PAGE.read_text().splitlines()
    pictures = [(place, found["name"]) for place, line in enumerate(lines, 1) if (found := _LINK.match(line))]
    commands = [
        each for block in transcript.parse("tutorial", PAGE.read_text()).blocks for each in block.commands
    ]
    ends = [each.line for each in commands[1:]] + [len(lines) + 1]
    return [
        Step(each, tuple(name for place, name in pictures if each.line < place < end))
        for each, end in zip(commands, ends, strict=True)
    ]


def file(name: str) -> Path:
    """Where the picture of that name is."""
    return FOLDER / f"{name}.svg"


def trains(rows: Sequence[str]) -> bool:
    """Whether a terminal shows an epoch half way, with its pace."""
    return any(_PARTIAL_BAR.search(row) for row in rows)

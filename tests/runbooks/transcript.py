"""Runbooks as data: their sections, and the transcripts in their fenced `console` blocks.

A line `$ command` is run, lines `> …` below it continue it. The lines up to the next command are its whole output;
`…` in a line stands for anything, alone on a line for any number of lines, none included. A last line `[1]` is the
exit status, 0 where there is none. Words behind `console` tell the test what a reader sees from the text around:

- `given:NAME`: the function of that name in situations.py brings about what the block starts from,
- `elsewhere:WHAT`: no kind cluster of ours can carry the block; WHAT is what it takes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "runbooks"
REHEARSED = FOLDER / "rehearsed.md"
SECTIONS = ("When it applies", "Preconditions", "Steps", "Verify", "Go back", "Last rehearsed")
ANYTHING = "…"

_FENCE = re.compile(r"^( *)```(\w*) *(.*)$")
_STATUS = re.compile(r"^\[(\d+)\]$")


class TranscriptError(ValueError):
    """A block that is no transcript; the message says where."""


@dataclass(frozen=True)
class Command:
    """`line` is its place in the file, from 1."""

    text: str
    expected: tuple[str, ...]
    status: int
    line: int

    def accepts(self, status: int, output: str) -> bool:
        return status == self.status and pattern(self.expected).fullmatch(trimmed(output)) is not None


@dataclass(frozen=True)
class Block:
    section: str
    line: int
    given: tuple[str, ...]
    elsewhere: str | None
    commands: tuple[Command, ...]


@dataclass(frozen=True)
class Runbook:
    name: str
    title: str
    sections: tuple[str, ...]
    blocks: tuple[Block, ...]

    @property
    def carried(self) -> list[Block]:
        """The blocks that a kind cluster can carry."""
        return [block for block in self.blocks if block.elsewhere is None]


def all_names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.md") if path.stem not in ("README", "rehearsed"))


def load(name: str) -> Runbook:
    """Read docs/runbooks/<name>.md. Raises TranscriptError."""
    return parse(name, (FOLDER / f"{name}.md").read_text())


def parse(name: str, text: str) -> Runbook:
    """Sections and blocks of a runbook's text. Raises TranscriptError."""
    title, sections, blocks = "", [], []
    lines = enumerate(text.splitlines(), start=1)
    for number, line in lines:
        if line.startswith("# "):
            title = line[2:]
        elif line.startswith("## "):
            sections.append(line[3:])
        elif fence := _FENCE.match(line):
            indent, language, words = fence.groups()
            inside = []
            for _, each in lines:
                if each.strip() == "```":
                    break
                inside.append(each.removeprefix(indent))
            if language == "console":
                where = f"{name}.md:{number}"
                section = sections[-1] if sections else ""
                blocks.append(_block(where, section, number, words.split(), inside))
    return Runbook(name, title, tuple(sections), tuple(blocks))


def _block(where: str, section: str, line: int, words: list[str], inside: list[str]) -> Block:
    given = [word.removeprefix("given:") for word in words if word.startswith("given:")]
    elsewhere = [word.removeprefix("elsewhere:") for word in words if word.startswith("elsewhere:")]
    if len(given) + len(elsewhere) < len(words) or len(elsewhere) > 1:
        raise TranscriptError(f"{where}: unknown words behind console: {' '.join(words)}")
    commands = tuple(_commands(where, line + 1, inside))
    return Block(section, line, tuple(given), elsewhere[0] if elsewhere else None, commands)


def _commands(where: str, first: int, inside: list[str]) -> list[Command]:
    found: list[tuple[int, list[str], list[str]]] = []
    for number, line in enumerate(inside, start=first):
        if line.startswith("$ "):
            found.append((number, [line[2:]], []))
        elif not found:
            raise TranscriptError(f"{where}: the block does not begin with `$ command`")
        elif (line.startswith("> ") or line == ">") and not found[-1][2]:
            found[-1][1].append(line[2:])
        else:
            found[-1][2].append(line)
    return [_command(number, words, output) for number, words, output in found]


def _command(line: int, words: list[str], output: list[str]) -> Command:
    last = _STATUS.match(output[-1]) if output else None
    expected = output[:-1] if last else output
    return Command("\n".join(words), tuple(expected), int(last[1]) if last else 0, line)


def trimmed(output: str) -> str:
    """Without blanks at the ends of lines and empty lines at the end: what a reader does not see."""
    return "".join(f"{line.rstrip()}\n" for line in output.splitlines()).rstrip("\n") + "\n"


def pattern(expected: tuple[str, ...]) -> re.Pattern[str]:
    """What the trimmed output has to match as a whole."""
    parts = []
    for line in expected:
        if line.strip() == ANYTHING:
            parts.append(r"(?:[^\n]*\n)*?")
        else:
            words = [re.escape(word) for word in line.rstrip().split(ANYTHING)]
            parts.append(r"[^\n]*?".join(words) + r"\n")
    return re.compile("".join(parts) + r"\n?")

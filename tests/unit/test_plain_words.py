"""How long README and the pages for users may be, and words that CONTRIBUTING's rules for sentences forbid there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GENERATED = {"configuration.md", "trainer-v2.md", "reliability.md", "rehearsed.md"}
FOR_CONTRIBUTORS = {"adr", "internals"}
PAGES = [ROOT / "README.md"] + [
    page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if page.name not in GENERATED and page.relative_to(ROOT / "docs").parts[0] not in FOR_CONTRIBUTORS
]
PLAIN = [
    *PAGES,
    ROOT / "CHANGELOG.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs" / "internals").glob("*.md")),
]
LINES = {"README.md": 180, "docs/benchmarks.md": 150}
CHANGELOG_LINES = 80
WORDS, WORDS_WITH_COMMANDS = 20_000, 25_000
FENCED = re.compile(r"^( *)```.*?^ *```$", re.MULTILINE | re.DOTALL)
READER = re.compile(r"# .+\n\nFor [^.]+?[:,]")
FORBIDDEN = {
    "whoever": "name the person: the user, an administrator",
    "whatever": "name the thing: any, each, every",
    "whichever": "name the thing: any, each, every",
    "of which": "begin another sentence",
    "that there is": "say the verb",
    "what is none": "name the thing",
    "as it is": "name the state: unchanged, running",
    "as they are": "name the state: unchanged, running",
    "as it was": "name the state: unchanged, as applied",
    "as it stands": "name the state: unchanged, running",
    "in vain": "say what happens: hangs, fails",
    "anew": "again",
    "lest": "so that … not",
    "but for": "except",
    "takes the place of": "replaces",
    "in the place of": "instead of, for",
}


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def prose(text: str) -> str:
    """Without fenced blocks: commands, what they print, programs."""
    return FENCED.sub("", text)


def words(text: str) -> int:
    return sum(bool(re.search(r"\w", each)) for each in text.split())


def found(text: str) -> list[str]:
    """Each forbidden expression of a page, in one line or over two, with the advice."""
    flat = " ".join(prose(text).lower().split())
    return [f"{each!r}: {advice}" for each, advice in FORBIDDEN.items() if re.search(rf"\b{each}\b", flat)]


@pytest.mark.parametrize("page", LINES)
def test_a_page_has_few_lines(page: str) -> None:
    assert len((ROOT / page).read_text().splitlines()) <= LINES[page]


def test_the_newest_release_is_told_in_few_lines() -> None:
    releases = re.split(r"^## \[", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:]
    assert releases[0].startswith("Unreleased]")
    assert [len(each.splitlines()) for each in releases if len(each.splitlines()) > CHANGELOG_LINES] == []


def test_the_pages_for_users_have_few_words() -> None:
    texts = [page.read_text() for page in PAGES]
    assert sum(words(prose(text)) for text in texts) <= WORDS
    assert sum(map(words, texts)) <= WORDS_WITH_COMMANDS


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.parent == ROOT / "docs" or page.stem == "README"][1:], ids=name
)
def test_a_page_names_its_reader_first(page: Path) -> None:
    """A runbook begins with when it applies; its index names the reader of all."""
    text = page.read_text()
    assert READER.match(text) or (page.parent.name == "runbooks" and "\n\nFor operators: " in text)


@pytest.mark.parametrize("page", PLAIN, ids=name)
def test_a_page_is_in_plain_words(page: Path) -> None:
    assert found(page.read_text()) == []


@pytest.mark.parametrize("page", sorted(GENERATED))
def test_a_page_that_does_not_count_is_written_by_a_program(page: str) -> None:
    (file,) = (ROOT / "docs").rglob(page)
    assert re.search(
        r"Written by `|writes this page|was run, and its output compared, by the code", file.read_text()
    )


@pytest.mark.parametrize("each", FORBIDDEN)
def test_an_expression_is_found_over_two_lines_and_not_in_a_command(each: str) -> None:
    broken = each.replace(" ", "\n").capitalize()
    assert found(f"# A\n\nThis is {broken}, said\n") != []
    assert found(f"# A\n\n   ```console\n   $ echo {each}\n   ```\n") == []

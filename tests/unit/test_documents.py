"""The documents: links lead somewhere, rooms are listed, decisions have their form, the version stands in one place."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.e2e.test_review_page import ELSEWHERE, HERE
from tests.matrix.merged_folder import blocks

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    path
    for folder in (ROOT, *(ROOT / name for name in ("docs", "standins", "trainer", "examples", "tests")))
    for path in sorted(folder.glob("*.md") if folder == ROOT else folder.rglob("*.md"))
]
DECISIONS = sorted(path for path in (ROOT / "docs" / "adr").glob("*.md") if path.name != "README.md")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", DOCUMENTS, ids=_name)
def test_links_lead_to_files(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    inside = [target for target in targets if "://" not in target]
    assert [target for target in inside if not (page.parent / target).exists()] == []


def test_every_room_is_in_the_table_of_contributing() -> None:
    rooms = [f"{path.parent.relative_to(ROOT)}/" for path in ROOT.glob("infra/*/__init__.py")]
    rooms += [f"{path.parent.relative_to(ROOT)}/" for path in ROOT.glob("toolchain/*/__init__.py")]
    rooms += [f"tests/{path.name}/" for path in (ROOT / "tests").iterdir() if (path / "__init__.py").exists()]
    missing = [room for room in rooms if f"`{room}`" not in CONTRIBUTING]
    assert missing == []


def test_the_paths_that_contributing_names_exist() -> None:
    named = re.findall(r"`((?:[\w.-]+/)+[\w.-]*)`", CONTRIBUTING)
    assert named
    assert [path for path in named if not path.startswith("~") and not (ROOT / path).exists()] == []


def test_every_variable_that_the_sources_read_is_described() -> None:
    modules = [path for name in ("infra", "storage", "toolchain") for path in ROOT.glob(f"{name}/**/*.py")]
    read = {
        name for path in modules for name in re.findall(r"['\"](TRAINSTACK_[A-Z_]+)['\"]", path.read_text())
    }
    assert len(read) > 5
    page = (ROOT / "docs" / "internals" / "architecture.md").read_text()
    assert sorted(name for name in read if f"`{name}`" not in page) == []


@pytest.mark.parametrize("page", DECISIONS, ids=_name)
def test_a_decision_has_a_date_and_three_sections(page: Path) -> None:
    text = page.read_text()
    assert re.match(rf"# {int(page.name[:4])}\. \S.*\n\nDate: 20\d\d-\d\d-\d\d \(.*\)\. Status: ", text)
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]


def test_decisions_are_numbered_and_listed() -> None:
    assert [int(page.name[:4]) for page in DECISIONS] == list(range(1, len(DECISIONS) + 1))
    listed = re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", (ROOT / "docs" / "adr" / "README.md").read_text())
    assert listed == [page.name for page in DECISIONS]


def test_the_newest_release_of_the_changelog_is_the_version() -> None:
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[:2] == ["Unreleased", PYPROJECT["project"]["version"]]


def test_no_module_repeats_the_version() -> None:
    modules = [
        path for name in ("infra", "storage", "toolchain", "trainer") for path in ROOT.glob(f"{name}/**/*.py")
    ]
    version = re.compile(rf"['\"]{re.escape(PYPROJECT['project']['version'])}['\"]|__version__ =")
    assert [_name(path) for path in modules if version.search(path.read_text())] == []


def test_the_licence_is_the_whole_text_that_the_metadata_name() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert PYPROJECT["project"]["license"] == "Apache-2.0"
    assert "Version 2.0, January 2004" in text
    assert "APPENDIX: How to apply the Apache License to your work." in text


def test_the_stand_ins_have_the_same_licence() -> None:
    """They are a distribution of their own, and an installation carries its own text."""
    theirs = tomllib.loads((ROOT / "standins" / "pyproject.toml").read_text())["project"]
    assert theirs["license"] == PYPROJECT["project"]["license"]
    assert theirs["license-files"] == PYPROJECT["project"]["license-files"]
    assert (ROOT / "standins" / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_each_block_of_the_pages_on_reviews_is_run_by_a_test() -> None:
    known = [*HERE, *ELSEWHERE]
    assert [sum(each.startswith(first) for first in known) for each in blocks()] == [1] * len(known)

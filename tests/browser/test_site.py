"""The site of the documents: built strictly, and looked at in a real browser."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests import containers
from tests.browser import chromium
from toolchain.checks import site
from toolchain.machine.engine import Engine
from toolchain.paths import ROOT
from toolchain.steps import SetupError

PAGES = ("index", "configuration", "internals/architecture", "runbooks/stuck-job")
# Of a page that stands alone: the site's pages ask for its own files, and MkDocs has followed their links.
ALONE = ("asks for http://127.0.0.1:", "a link leads nowhere")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("built") / "site"
    site.build(into=into)
    return into


@pytest.mark.sampled(2)
@pytest.mark.parametrize("page", PAGES)
def test_nothing_is_wrong_with_a_page(engine: Engine, built: Path, page: str) -> None:
    seen = chromium.look(engine, built / f"{page}.html", site=built)
    found = [fault for fault in seen.faults() if not any(each in fault for each in ALONE)]
    assert not found, "\n".join(found)


def test_a_search_finds_a_page(engine: Engine, built: Path) -> None:
    files = {each.name: each for each in chromium.INSIDE.glob("*.py")} | chromium.of_site(built)
    command = [
        "python3",
        f"{containers.GIVEN}/find.py",
        f"{containers.GIVEN}/site/index.html",
        "released volume",
        "is Released",
    ]
    done = containers.run(engine, chromium.SUITE, command, files)
    assert done.returncode == 0, done.stderr[-5000:]


def test_each_document_is_a_page(built: Path) -> None:
    """Under its own name, and a runbook's steps are one list although they have commands between them."""
    documents = {each.relative_to(ROOT / "docs") for each in (ROOT / "docs").rglob("*.md")}
    pages = {
        f"{each.parent / 'index' if each.stem == 'README' else each.with_suffix('')}.html"
        for each in documents
    }
    assert {page for page in pages if not (built / page).exists()} == set()
    assert not [each for each in built.rglob("*.html") if "```" in each.read_text()]


def test_a_broken_link_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "ci").mkdir()
    for name in (
        "mkdocs.yml",
        "ci/mkdocs_hooks.py",
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
    ):
        shutil.copy2(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    with (tmp_path / "docs" / "plan.md").open("a") as page:
        page.write("\nSee [there](nowhere.md).\n")
    with pytest.raises(SetupError, match=r"nowhere\.md"):
        site.build(tmp_path, tmp_path / "site")

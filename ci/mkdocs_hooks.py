"""What the site adds to docs/: pages of the clone's top folder, and changes of links to files outside the site.

A hook of MkDocs: https://www.mkdocs.org/user-guide/configuration/#hooks
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
TOP = {"README.md": "index.md"} | {name: name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")}
"""A page of the top folder -> its name on the site."""
_LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")

_FENCE = re.compile(r"^( *```\w+) .*$", re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Replace each pattern of the navigation, such as `adr/*.md`, by the files that match it, except README.md."""
    for section in config.nav:
        for title, entries in section.items():
            section[title] = [each for entry in entries for each in _matches(entry, Path(config.docs_dir))]
    return config


def _matches(entry: str | dict[str, str], docs: Path) -> list[str | dict[str, str]]:
    if not isinstance(entry, str) or "*" not in entry:
        return [entry]
    found = sorted(each.relative_to(docs).as_posix() for each in docs.glob(entry))
    return [each for each in found if not each.endswith("/README.md")]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the top folder."""
    for name, page in TOP.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make each link lead to a page of the site. A link to another file of the clone becomes plain text."""
    return _LINK.sub(lambda found: _link(found, page.file.src_uri, files), _adapted(markdown))


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Give the theme's search dialog a name for screen readers."""
    return output.replace('"search" role="dialog"', '"search" role="dialog" aria-label="Search"')


def _adapted(markdown: str) -> str:
    """`markdown` for Python-Markdown, which indents lists by four columns and allows only a language after a fence."""
    lines, is_code = [], False
    for line in _FENCE.sub(r"\1", markdown).split("\n"):
        is_code ^= line.startswith("```")
        lines.append(f" {line}" if line.startswith("   ") and not is_code else line)
    return "\n".join(lines)


def _link(found: re.Match[str], source: str, files: Files) -> str:
    text, target, anchor = found[1], found[2], found[3] or ""
    written = {page: name for name, page in TOP.items()}.get(source, f"docs/{source}")
    aimed = posixpath.normpath(posixpath.join(posixpath.dirname(written), target))
    for place in (aimed, f"{aimed}/README.md"):
        page = TOP.get(place, place.removeprefix("docs/"))
        if (place in TOP or place.startswith("docs/")) and files.get_file_from_path(page):
            return f"{text}({posixpath.relpath(page, posixpath.dirname(source) or '.')}{anchor})"
    return text[1:-1] if (ROOT / aimed).exists() else found[0]

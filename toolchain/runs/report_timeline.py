"""The timeline of a run's job and pods in its report.

The trainer writes the report, and cannot ask the API server; what has watched the job leaves `timeline.json` beside it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from datetime import datetime
from html import escape
from pathlib import Path

from toolchain.steps import say

FILE, REPORT = "timeline.json", "report.html"
TITLE = "What happened to job and pods"
BEFORE_SECTION, BEFORE_LINK = '<section aria-labelledby="again">', '<li><a href="#again">'
SECTION, LINK = '<section aria-labelledby="timeline">', f'<li><a href="#timeline">{TITLE}</a></li>'
END = "</section>\n"

Entry = tuple[str, str, str]
"""When, in RFC 3339; about what; what happened."""


def complete(folders: Iterable[Path]) -> None:
    """Put the timeline into the report of each run in `folders` that has both. A line tells where that fails."""
    for folder in folders:
        page = folder / REPORT
        try:
            text = page.read_text()
            whole = with_timeline(text, entries(folder))
            if whole != text:
                _replace(page, whole)
        except FileNotFoundError:
            continue
        except OSError as error:
            say(f"the report of run {folder.name} is left without a timeline: {error}")


def entries(folder: Path) -> list[Entry]:
    """What the run's timeline tells; nothing where there is none, or a broken one."""
    try:
        return [
            (str(at), str(about), str(what)) for at, about, what in json.loads((folder / FILE).read_text())
        ]
    except (OSError, ValueError, TypeError):
        return []


def with_timeline(page: str, found: list[Entry]) -> str:
    """`page` with the section in place of an earlier one; as it is where the place for it is not there."""
    if not found or page.count(BEFORE_SECTION) != 1 or page.count(BEFORE_LINK) != 1:
        return page
    if SECTION in page:
        before, _, rest = page.partition(SECTION)
        page = before + rest.partition(END)[2]
        page = page.replace(LINK, "")
    page = page.replace(BEFORE_LINK, LINK + BEFORE_LINK)
    return page.replace(BEFORE_SECTION, section(found) + BEFORE_SECTION)


def section(found: list[Entry]) -> str:
    """The section, with a table of the entries: time, seconds since the first, about what, what happened."""
    first = _time(found[0][0])
    rows = "".join(
        f'<tr><th scope="row">{escape(at)}</th><td>{(_time(at) - first).total_seconds():.0f} s</td>'
        f"<td>{escape(about)}</td><td>{escape(what)}</td></tr>"
        for at, about, what in found
    )
    head = "".join(f'<th scope="col">{name}</th>' for name in ("time", "after", "about", "what"))
    return (
        f'{SECTION}<h2 id="timeline">{TITLE}</h2><p class="soft">As the API server told it to whoever waited for the '
        f'job.</p><div class="wide" tabindex="0" role="region" aria-label="Timeline"><table class="words">'
        f"<caption>Timeline</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>{END}"
    )


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _replace(page: Path, text: str) -> None:
    """Write the page in one step, with its own time: the run's files tell when it has ended."""
    known = page.stat()
    partial = page.with_name(f".{page.name}-{os.getpid()}")
    try:
        partial.write_text(text)
        partial.chmod(known.st_mode & 0o777)
        os.utime(partial, ns=(known.st_atime_ns, known.st_mtime_ns))
        partial.replace(page)
    finally:
        partial.unlink(missing_ok=True)

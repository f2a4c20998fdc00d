"""Adds to a run's report what its program cannot know: the run's origin, and the timeline of its job and pods.

`make up` writes `origin.json` beside the run. The command that waited for the job writes `timeline.json` there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from pathlib import Path
from typing import Any

from infra import agreed
from infra.atomic_file import write_whole
from toolchain.runs import comparison, records
from toolchain.runs.records import Run
from toolchain.steps import say

BEFORE_SECTION, BEFORE_LINK = '<section aria-labelledby="again">', '<li><a href="#again">'
END = "</section>\n"

Entry = tuple[str, str, str]
"""Time in RFC 3339; object; what happened."""
MARK = '<meta name="generator" content="trainstack record">'
"""Marks our own pages, which may be written again. A program's own report has no mark, and stays."""
LOG_LINES = 200
"""How many lines from the end of each replica's log are on the page."""
RECORD_STYLE = """
table { border-collapse: collapse } caption { text-align: left; color: var(--soft) }
th, td { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0; overflow-wrap: anywhere }
main { display: block } .wide { overflow-x: auto } pre { overflow-x: auto; font-size: 13px }
.soft { color: var(--soft) } .curves { display: grid; gap: 1rem }
"""


def complete(folders: Iterable[Path]) -> None:
    """Complete the report of each run in `folders` with origin and timeline, if they are known.

    A run without a report gets a report from its record. If this fails, a line says so.
    """
    for folder in folders:
        page = folder / agreed.REPORT
        try:
            text = page.read_text() if page.exists() else ""
            run = records.read(folder)
            whole = from_record(run) if run.told and (not text or MARK in text) else text
            if not whole:
                continue
            whole = with_timeline(with_origin(whole, run.origin), entries(folder))
            if whole != text:
                _replace(page, whole, run.ended.timestamp())
        except FileNotFoundError:
            continue
        except OSError as error:
            say(f"the report of run {folder.name} gets no origin and no timeline: {error}")


def entries(folder: Path) -> list[Entry]:
    """The run's timeline; empty if it is missing or damaged."""
    try:
        return [
            (str(at), str(about), str(what))
            for at, about, what in json.loads((folder / agreed.TIMELINE).read_text())
        ]
    except (OSError, ValueError, TypeError):
        return []


def with_origin(page: str, origin: Mapping[str, Any]) -> str:
    """`page` with a section on commit, tree and image; unchanged if all are unknown, or `page` has no place for it."""
    if not origin:
        return page
    clean = origin.get("clean")
    tree = "not known" if clean is None else "clean" if clean else "with changes that no commit holds"
    rows = [
        (name, str(value or "not known"))
        for name, value in (("commit", origin.get("commit")), ("tree", tree), ("image", origin.get("image")))
    ]
    said = "The commit and tree when make up began this run, and the image that it pushed."
    return _with_section(page, "origin", "Where it is from", said, table("Origin", ("key", "value"), rows))


def with_timeline(page: str, found: list[Entry]) -> str:
    """`page` with the timeline; unchanged if the timeline is empty, or `page` has no place for it."""
    if not found:
        return page
    first = _time(found[0][0])
    # Times of day would be too wide for the screen of a phone.
    rows = [(clock(_time(at) - first), about, what) for at, about, what in found]
    since = f"{first:%Y-%m-%d %H:%M:%S} UTC"
    said = f"Times after {since}. The API server told them to the command that waited for the job."
    content = table("Timeline", ("after", "about", "what"), rows)
    return _with_section(page, "timeline", "What happened to job and pods", said, content)


def _with_section(page: str, name: str, title: str, said: str, content: str) -> str:
    """`page` with this section before the last one. The section replaces an earlier section of that name."""
    if page.count(BEFORE_SECTION) != 1 or page.count(BEFORE_LINK) != 1:
        return page
    begin, link = f'<section aria-labelledby="{name}">', f'<li><a href="#{name}">{title}</a></li>'
    if begin in page:
        before, _, rest = page.partition(begin)
        page = before + rest.partition(END)[2]
        page = page.replace(link, "")
    section = f'{begin}<h2 id="{name}">{title}</h2><p class="soft">{said}</p>{content}{END}'
    page = page.replace(BEFORE_LINK, link + BEFORE_LINK)
    return page.replace(BEFORE_SECTION, section + BEFORE_SECTION)


def clock(after: timedelta) -> str:
    """`0:07`, `1:02:03`, and for a run of several days `2 d 1:02:03`."""
    minutes, seconds = divmod(after.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if not after.days:
        return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
    return f"{after.days} d {hours}:{minutes:02}:{seconds:02}"


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _replace(page: Path, text: str, ended: float) -> None:
    """Write the page in one step, with the time of the old page, else of the run's end. That time must not change.

    Parameters:
        ended: when the run has ended, in seconds since 1970.
    """
    known = page.stat() if page.exists() else None
    written = known.st_mtime if known else int(ended)
    write_whole(page, text, known.st_mode & 0o777 if known else 0o644, written)


def from_record(run: Run) -> str:
    """A report made from the run's record, with the same places for origin and timeline as our trainer's report."""
    sections = [*_sections(run)]
    links = "".join(f'<li><a href="#{name}">{title}</a></li>' for name, title, _ in sections)
    parts = "".join(
        f'<section aria-labelledby="{name}"><h2 id="{name}">{title}</h2>{content}</section>\n'
        for name, title, content in sections
    )
    title = escape(f"{run.stack}/{run.name}")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">{MARK}'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{comparison.STYLE}{RECORD_STYLE}</style></head>\n"
        f'<body><header><h1>{title}</h1></header><nav aria-label="Sections"><ul>{links}</ul></nav>'
        f"<main>{parts}</main></body></html>\n"
    )


def _sections(run: Run) -> Iterator[tuple[str, str, str]]:
    """Id, title and content of each section."""
    result = [("ended", run.outcome or "not known"), ("why", str(run.told.get("message") or ""))]
    numbers = {"accuracy": run.accuracy, "loss": run.loss, **run.results, "seconds": run.seconds}
    result += [(name, f"{value:.6g}") for name, value in numbers.items() if value is not None]
    yield "result", "Result", table("Result", ("what", "value"), [each for each in result if each[1]])
    if curves := "".join(comparison.figures([run])):
        yield "curves", "What it printed", f'<div class="curves">{curves}</div>'
    rows = [(key, str(value)) for key, value in {"image": run.image, **run.config}.items()]
    yield "program", "Program", table("Program", ("key", "value"), rows)
    logs = [*_logs(run)]
    if logs:
        yield "logs", "Logs", "".join(logs)
    stack, name = escape(run.stack), escape(run.name)
    use = (
        f"<p>To use its model again: <code>make use STACK={stack} RUN={name}</code></p>" if run.model else ""
    )
    again = f"<p>To run the same training again: <code>make rerun STACK={stack}</code></p>{use}"
    yield "again", "How to run it again", again


def _logs(run: Run) -> Iterator[str]:
    for file in sorted(run.folder.glob(f"{run.told.get('job')}-*{agreed.LOG}")):
        lines = file.read_text(errors="replace").splitlines()
        text = escape("\n".join(lines[-LOG_LINES:]))
        yield f'<h3>{escape(file.name)}</h3><pre tabindex="0">{text}</pre>'


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table as in trainer.report: the first cell of a row is its heading."""
    top = "".join(f'<th scope="col">{name}</th>' for name in head)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in rest)}</tr>'
        for first, *rest in rows
    )
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{title}"><table class="words">'
        f"<caption>{title}</caption><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )

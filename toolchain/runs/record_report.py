"""The report of a run whose program writes none, from what its record tells: one page, for any browser."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from infra import agreed
from toolchain.runs import comparison
from toolchain.runs.records import Run

MARK = '<meta name="generator" content="trainstack record">'
"""In a page of ours, which may be written again; a program's own report has none, and stays."""
LOG_LINES = 200
"""Lines of each replica's log on the page: its end."""
STYLE = """
table { border-collapse: collapse } caption { text-align: left; color: var(--soft) }
th, td { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0; overflow-wrap: anywhere }
main { display: block } .wide { overflow-x: auto } pre { overflow-x: auto; font-size: 13px }
.soft { color: var(--soft) } .curves { display: grid; gap: 1rem }
"""


def page(run: Run) -> str:
    """The page. It has the places for origin and timeline that our trainer's report has, too."""
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
        f"<title>{title}</title><style>{comparison.STYLE}{STYLE}</style></head>\n"
        f'<body><header><h1>{title}</h1></header><nav aria-label="Sections"><ul>{links}</ul></nav>'
        f"<main>{parts}</main></body></html>\n"
    )


def _sections(run: Run) -> Iterator[tuple[str, str, str]]:
    """Id, title and content of each."""
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
    use = f"<p>Its model again: <code>make use STACK={stack} RUN={name}</code></p>" if run.model else ""
    again = f"<p>The same training once more: <code>make rerun STACK={stack}</code></p>{use}"
    yield "again", "How to run it again", again


def _logs(run: Run) -> Iterator[str]:
    for file in sorted(run.folder.glob(f"{run.told.get('job')}-*{agreed.LOG}")):
        lines = file.read_text(errors="replace").splitlines()
        text = escape("\n".join(lines[-LOG_LINES:]))
        yield f'<h3>{escape(file.name)}</h3><pre tabindex="0">{text}</pre>'


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """As trainer.report has its tables: the first cell of a row is its heading."""
    top = "".join(f'<th scope="col">{name}</th>' for name in head)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in rest)}</tr>'
        for first, *rest in rows
    )
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{title}"><table class="words">'
        f"<caption>{title}</caption><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )

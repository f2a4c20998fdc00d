"""report.html: one page that shows a run to a person, readable without a network."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

WIDTH, HEIGHT, MARGIN = 640, 220, 40
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; color: #1c2733 }
h1, h2 { font-weight: 600 } td, th { padding: .15rem 1rem .15rem 0; text-align: left }
svg { width: 100%; height: auto } polyline { fill: none; stroke: #2563a8; stroke-width: 1.5 }
line { stroke: #b8c4d0 } text { font-size: 11px; fill: #566575 }
@media (prefers-color-scheme: dark) { body { background: #12181f; color: #dbe4ee } polyline { stroke: #6fb1ff } }
"""


def page(run: str, config: dict[str, Any], lines: Sequence[dict[str, float]]) -> str:
    """The report of run `run` from its config.json and the lines of its metrics.jsonl."""
    steps = [line for line in lines if "accuracy" not in line]
    epochs = [line for line in lines if "accuracy" in line]
    loss = curve([(line["step"], line["loss"]) for line in steps])
    rate = curve([(line["step"], line["images_per_s"]) for line in steps[1:]])
    rows = [
        (f"{line['epoch']:.0f}", f"{line['step']:.0f}", f"{line['accuracy']:.4f}", f"{line['test_loss']:.4f}")
        for line in epochs
    ]
    settings = [(key, "" if value is None else str(value)) for key, value in config.items()]
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{escape(run)}</title><style>{STYLE}</style>\n'
        f"<h1>{escape(run)}</h1>\n<h2>Accuracy</h2>\n{table(('epoch', 'step', 'accuracy', 'loss'), rows)}\n"
        f"<h2>Training loss by step</h2>\n{loss}\n<h2>Images per second by step</h2>\n{rate}\n"
        f"<h2>Configuration</h2>\n{table(('key', 'value'), settings)}\n</html>\n"
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    return "<table>" + row(head, "th") + "".join(row(cells, "td") for cells in rows) + "</table>"


def curve(points: Sequence[tuple[float, float]]) -> str:
    """An SVG line through `points`, x rising; the vertical axis begins at 0."""
    if len(points) < 2:
        return "<p>Too few steps to draw.</p>"
    first, last, top = points[0][0], points[-1][0], max(y for _, y in points) or 1
    across, up = WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN

    def place(x: float, y: float) -> str:
        return f"{MARGIN + (x - first) / (last - first) * across:.1f},{HEIGHT - MARGIN - y / top * up:.1f}"

    base = HEIGHT - MARGIN
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
        f'<line x1="{MARGIN}" y1="{base}" x2="{WIDTH - MARGIN}" y2="{base}"/>'
        f'<text x="{MARGIN}" y="{base + 16}">{first:.0f}</text>'
        f'<text x="{WIDTH - MARGIN}" y="{base + 16}" text-anchor="end">{last:.0f}</text>'
        f'<text x="2" y="{MARGIN + 4}">{top:.4g}</text><text x="2" y="{base}">0</text>'
        f'<polyline points="{" ".join(place(x, y) for x, y in points)}"/></svg>'
    )

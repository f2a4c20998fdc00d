"""`make compare A=… B=…`: the differences of two runs, and a page with their curves in one chart.

The page needs no other file, and works in any browser.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from toolchain.paths import LOCAL
from toolchain.runs import listing, records
from toolchain.runs.records import Run
from toolchain.steps import SetupError

Points = Sequence[tuple[float, float]]

FOLDER = LOCAL / "comparisons"
# (key of a line of metrics.jsonl, title)
CURVES = (
    ("loss", "Loss on training examples"),
    ("test_loss", "Loss on test examples"),
    ("accuracy", "Accuracy on test examples"),
    ("lr", "Learning rate"),
    ("images_per_s", "Images per second"),
)
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = (
    480,
    260,
    100,
    14,
    14,
    44,
)  # LEFT: nine digits in DejaVu, a wide font
MOST_POINTS = 400
TICKS = 4
"""About how many intervals the numbers beside a curve divide its height into."""

LEAST_SPAN = 0.01
"""The least height of a curve's frame, as a part of its values. A smaller difference is noise, and looks flat."""

FEW = 20
"""If a curve has at most this many points, it gets a dot for each point."""
STYLE = """
:root { color-scheme: light dark; --page: #ffffff; --text: #1b2430; --soft: #4a5868; --rule: #8592a0;
  --line0: #1f5f9e; --line1: #a3400f }
@media screen and (prefers-color-scheme: dark) { :root { --page: #11171e; --text: #e3e9f0; --soft: #a9b6c4;
  --rule: #74828f; --line0: #7bb5f2; --line1: #f0a070 } }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; padding: 1rem; max-width: 64rem;
  background: var(--page); color: var(--text) }
header { grid-column: 1 / -1 } h1 { font-size: 1.4rem; overflow-wrap: anywhere }
figcaption { color: var(--soft) } figure { margin: 0 }
main { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 1rem }
svg { width: 100%; height: auto } svg text { font-size: 15px; fill: var(--soft) }
svg line { stroke: var(--rule); stroke-width: .5 } polyline { fill: none; stroke-width: 2 }
.line0 { stroke: var(--line0) } .line1 { stroke: var(--line1); stroke-dasharray: 7 4 }
.dot0 { fill: var(--line0) } .dot1 { fill: var(--line1) }
.name0 { color: var(--line0) } .name1 { color: var(--line1) }
@media print { figure { break-inside: avoid } }
"""
OUTCOME = ("commit", "image", "epochs done", "accuracy", "loss", "seconds")


def compare(one: str, other: str) -> None:
    """Print the differences of the two runs, and the path of a page with their curves in one chart.

    Raises SetupError if a name is missing, unknown or ambiguous.
    """
    if not (one and other):
        raise SetupError("name two runs", "make compare A=<run> B=<run>; `make runs` lists them")
    first, second = records.find(one), records.find(other)
    print("\n".join(differences(first, second)))
    if page := write(first, second):
        print(f"curves: {page}")


def differences(one: Run, other: Run) -> list[str]:
    """A table with configuration, then result; a sentence if there is no difference."""
    first, second = _facts(one), _facts(other)
    differing = [key for key in {**first, **second} if first.get(key) != second.get(key)]
    if not differing:
        return [f"{one.stack}/{one.name} and {other.stack}/{other.name} do not differ"]
    cells = [(key, _text(first.get(key)), _text(second.get(key))) for key in differing]
    return listing.table([("", f"{one.stack}/{one.name}", f"{other.stack}/{other.name}"), *cells])


def _facts(run: Run) -> dict[str, object]:
    """Configuration, then result."""
    done = (run.commit or None, _image(run), run.epochs, run.accuracy, run.loss, run.seconds)
    others = {} if run.by_trainer or not run.told else {"ended": run.outcome or None, **run.results}
    return {**run.config, **dict(zip(OUTCOME, done, strict=True)), **others}


def _image(run: Run) -> object:
    return run.origin.get("image") or run.image.rpartition("@")[2] or None


def _text(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def write(one: Run, other: Run) -> Path | None:
    """Write the page of the two runs; returns its path, None if neither has a number."""
    text = page(one, other)
    if "<svg" not in text:
        return None
    FOLDER.mkdir(parents=True, exist_ok=True)
    file = FOLDER / f"{one.stack}-{one.name}-{other.stack}-{other.name}.html"
    file.write_text(text)
    return file


def page(one: Run, other: Run) -> str:
    """The page: a chart for each number of the two runs."""
    names = [escape(f"{run.stack}/{run.name}") for run in (one, other)]
    first, second = (
        f'<span class="name{at}">{name}</span> ({how})'
        for at, (name, how) in enumerate(zip(names, ("solid", "dashed"), strict=True))
    )
    charts = "".join(figures([one, other]))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{names[0]} and {names[1]}</title><style>{STYLE}</style></head>\n"
        f"<body><main><header><h1>{first} and {second}</h1></header>{charts}</main></body></html>\n"
    )


def figures(runs: Sequence[Run]) -> Iterator[str]:
    """A chart by step for each number of `runs`, first those of CURVES."""
    names = [escape(f"{run.stack}/{run.name}") for run in runs]
    told = [records.metrics(run) for run in runs]
    others = sorted({key for run in runs for key in run.results} - {key for key, _ in CURVES})
    for key, title in (*CURVES, *((key, escape(key)) for key in others)):
        lines = [_points(each, key) for each in told]
        if any(lines):
            yield f"<figure>{_chart(title, names, lines)}<figcaption>{title}</figcaption></figure>"


def _points(lines: Sequence[Mapping[str, Any]], key: str) -> Points:
    """(step, value) of lines where both are numbers, at most MOST_POINTS."""
    found = [
        (float(line["step"]), float(line[key]))
        for line in lines
        if None not in (records.number(line.get("step")), records.number(line.get(key)))
    ]
    every = -(-len(found) // MOST_POINTS) or 1
    return [*found[:-1:every], *found[-1:]]


def _chart(title: str, names: Sequence[str], lines: Sequence[Points]) -> str:
    everything = [point for points in lines for point in points]
    steps, values = ([point[at] for point in everything] for at in (0, 1))
    first, last = min(steps), max(steps)
    marks = ticks(min(values), max(values))
    low, high = marks[0], marks[-1]

    def place(step: float, value: float) -> tuple[float, float]:
        part = (step - first) / (last - first) if last > first else 0.5
        return (
            LEFT + part * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM),
        )

    said = "; ".join(
        f"{name} from {points[0][1]:.4g} to {points[-1][1]:.4g}"
        for name, points in zip(names, lines, strict=True)
        if points
    )
    shapes = [*_frame(first, last, marks)]
    for at, points in enumerate(lines):
        spots = [place(*point) for point in points]
        if len(spots) > 1:
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
            shapes.append(f'<polyline class="line{at}" points="{path}"/>')
        if len(spots) <= FEW:
            shapes += [f'<circle class="dot{at}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>' for x, y in spots]
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title} by step: {said}">'
        f"{''.join(shapes)}</svg>"
    )


def ticks(low: float, high: float) -> list[float]:
    """Round numbers, evenly spaced, from at most `low` to at least `high`; at least two.

    Five digits are always enough to distinguish them.
    """
    span = max(high - low, LEAST_SPAN * max(abs(low), abs(high))) if high > low else abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / TICKS))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= span / TICKS * 0.999)
    begin, end = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(begin, max(end, begin + 1) + 1)]


def _frame(first: float, last: float, marks: Sequence[float]) -> Iterator[str]:
    """A horizontal line for each of `marks`, and the first and the last step."""
    for mark, text in zip(marks, _short(marks), strict=True):
        y = HEIGHT - BOTTOM - (mark - marks[0]) / (marks[-1] - marks[0]) * (HEIGHT - TOP - BOTTOM)
        yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 5:.1f}" text-anchor="end">{text}</text>'
    below = HEIGHT - BOTTOM + 20
    for x, anchor, text in (
        (LEFT, "start", f"{first:.6g}"),
        ((LEFT + WIDTH - RIGHT) / 2, "middle", "step"),
        (WIDTH - RIGHT, "end", f"{last:.6g}"),
    ):
        yield f'<text x="{x}" y="{below}" text-anchor="{anchor}">{text}</text>'


def _short(marks: Sequence[float]) -> list[str]:
    """The marks as texts of at most nine characters.

    Marks from 1000 to ten million are whole numbers. Others have as many digits as needed to distinguish them.
    """
    for digits in (3, 4, 5):
        told = [f"{mark:.0f}" if 999.5 <= abs(mark) < 1e7 else f"{mark:.{digits}g}" for mark in marks]
        if len({*told}) == len(marks):
            break
    return told

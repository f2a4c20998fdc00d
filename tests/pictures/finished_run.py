"""`python -m tests.pictures.finished_run RUN_FOLDER`: draws docs/finished-run.svg, what README shows of a run.

All of it is taken from the run's own report: result, loss, and the mistakes that the network was surest of.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from infra.paths import ROOT

PAGE = ROOT / "docs" / "finished-run.svg"
REPORT = "report.html"
WIDTH, MARGIN = 960, 24
TILE, MISTAKES = 76, 10
CHART_TOP, CHART = 84, (560, 303)
BOTTOM = 170
FACTS = ("accuracy", "wrong", "loss", "epochs", "training", "replicas")
_FACT = re.compile(r"<dt>([^<]*)</dt><dd>([^<]*)</dd>")
_CHART = re.compile(r'<svg viewBox="0 0 (\d+) (\d+)"[^>]*>(.*?)</svg>', re.DOTALL)
_MISTAKE = re.compile(r'<img [^>]*alt="([^"]*)" src="(data:image/png;base64,[^"]*)">')
_COLOURS = re.compile(r":root \{ (--[^}]*) \}")
_SAID = re.compile(r"true (.*), predicted (.*), ([\d.]+%)$")


class ReportError(ValueError):
    """A page that is no report of a run, or one without a part that the picture shows."""


@dataclass(frozen=True)
class Report:
    """The parts of a report.html.

    Parameters:
        about: network, data and recipe in one line.
        facts: name -> value of the result.
        chart: width and height of the first curve, and its shapes as SVG.
        mistakes: alternative text and address of each picture.
        colours: by name, in light and in dark.
    """

    run: str
    about: str
    facts: Mapping[str, str]
    chart: tuple[int, int, str]
    mistakes: Sequence[tuple[str, str]]
    colours: tuple[Mapping[str, str], Mapping[str, str]]


def read(text: str) -> Report:
    """Take a report apart. Raises ReportError."""
    heading = re.search(r'<h1>([^<]*)</h1><p class="soft">([^<]*)</p>', text)
    chart, facts = _CHART.search(text), dict(_FACT.findall(text))
    colours = [dict(re.findall(r"--(\w+): (#\w+)", block)) for block in _COLOURS.findall(text)]
    if not (heading and chart and facts.keys() >= set(FACTS) and len(colours) == 2):
        raise ReportError("no report of a run that classifies")
    shapes = re.sub(r"<title>.*?</title>", "", chart[3])
    return Report(
        unescape(heading[1]),
        unescape(heading[2]),
        {name: unescape(value) for name, value in facts.items()},
        (int(chart[1]), int(chart[2]), shapes),
        [(unescape(said), address) for said, address in _MISTAKE.findall(text)],
        (colours[0], colours[1]),
    )


def drawn(report: Report) -> str:
    """The picture as SVG."""
    width, height, shapes = report.chart
    whole = CHART_TOP + CHART[1] + (BOTTOM if report.mistakes else 0)
    told = "; ".join(f"{name} {report.facts[name]}" for name in FACTS)
    x, y = WIDTH - MARGIN - CHART[0], CHART_TOP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {whole}" role="img" '
        'aria-labelledby="title description">',
        f'<title id="title">A finished run: {escape(report.about)}</title>',
        f'<desc id="description">{escape(told)}.</desc>',
        f"<style>{_style(*report.colours)}</style>",
        '<rect class="page" width="100%" height="100%"/>',
        _text("heading", MARGIN, 42, report.run),
        _text("soft", MARGIN, 66, report.about),
        *_facts(report.facts),
        f'<svg x="{x}" y="{y}" width="{CHART[0]}" height="{CHART[1]}" viewBox="0 0 {width} {height}">{shapes}</svg>',
        _text(
            "soft",
            x + CHART[0] * 64 / 480,
            y - 6,
            "loss: solid while training, dashed or a dot on test images",
        ),
        *_mistakes(report.mistakes),
        "</svg>\n",
    ]
    return "\n".join(parts)


def _facts(facts: Mapping[str, str]) -> list[str]:
    parts = []
    for place, name in enumerate(FACTS):
        x, y = MARGIN + place % 2 * 172, CHART_TOP + 4 + place // 2 * 94
        parts += [
            f'<rect class="panel" x="{x}" y="{y}" width="160" height="80" rx="8"/>',
            _text("soft", x + 14, y + 28, name),
            _text("value", x + 14, y + 58, facts[name]),
        ]
    return parts


def _mistakes(mistakes: Sequence[tuple[str, str]]) -> list[str]:
    if not mistakes:
        return []
    top = CHART_TOP + CHART[1] + 20
    parts = [
        _text(
            "soft", MARGIN, top, "the mistakes that it was surest of: what it is, and what it was taken for"
        )
    ]
    step = (WIDTH - 2 * MARGIN - TILE) / (MISTAKES - 1)
    for place, (said, address) in enumerate(mistakes[:MISTAKES]):
        found = _SAID.search(said)
        if not found:
            raise ReportError(f"a mistake without its classes: {said}")
        x = MARGIN + place * step
        parts += [
            f'<image x="{x:g}" y="{top + 12}" width="{TILE}" height="{TILE}" href={quoteattr(address)}/>',
            _text("caption", x + TILE / 2, top + TILE + 30, f"{found[1]} as {found[2]}"),
            _text("caption", x + TILE / 2, top + TILE + 48, found[3]),
        ]
    return parts


def _style(light: Mapping[str, str], dark: Mapping[str, str]) -> str:
    """Plain rules with the report's own colours: not everything that shows SVG knows variables."""

    def rules(colours: Mapping[str, str]) -> str:
        return (
            f"text {{ fill: {colours['text']} }} .page {{ fill: {colours['page']} }} "
            f".panel {{ fill: {colours['panel']} }} .soft, .caption, svg svg text {{ fill: {colours['soft']} }} "
            f"line {{ stroke: {colours['rule']} }} .line0 {{ stroke: {colours['line0']} }} "
            f".line1 {{ stroke: {colours['line1']} }} .dot0 {{ fill: {colours['line0']} }} "
            f".dot1 {{ fill: {colours['line1']} }}"
        )

    return (
        'text { font-family: system-ui, "Segoe UI", "DejaVu Sans", sans-serif; font-size: 15px } '
        ".heading { font-size: 26px; font-weight: 600 } .value { font-size: 20px } "
        ".caption { font-size: 13px; text-anchor: middle } image { image-rendering: pixelated } "
        "line { stroke-width: .5 } polyline { fill: none; stroke-width: 2 } .line1 { stroke-dasharray: 7 4 } "
        f"{rules(light)} @media (prefers-color-scheme: dark) {{ {rules(dark)} }}"
    )


def _text(kind: str, x: float, y: float, text: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(text)}</text>'


def main(arguments: Sequence[str]) -> int:
    """Draw the run whose folder is named."""
    PAGE.write_text(drawn(read((Path(arguments[0]) / REPORT).read_text())))
    print(f"written: {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`python -m tests.pictures.architecture`: draws docs/architecture.svg, the graph of what `pulumi up` registers.

Resources and dependencies are the program's own. A box is a component, a line in it a resource; an arrow says that
something in the box at its head waits for something in the box at its tail. What follows from other arrows has none.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from infra.paths import ROOT
from tests.pictures.registered import Resource, component_of, resources

PAGE = ROOT / "docs" / "architecture.svg"
STACK = "dev"
WIDTH, MARGIN, GAP = 960, 16, 20
COLUMNS = 3
HEAD, LINE, PAD, ARROW = 50, 36, 14, 44
"""Heights in pixels: of a box's title, of a resource, below the last one, and between two rows of boxes."""
MOST_LETTERS = 38
"""Of a resource's name in its column; the middle of a longer one is left out."""

SAYS = {
    "stack": "The mark that every object carries: whose it is",
    "cluster": "The cluster with its registry, its namespace and its policies",
    "operator": "The Kubeflow training-operator",
    "storage": "Volumes and claims: models, data",
    "image": "The trainer image, built and pushed",
    "job": "The training, Master and Worker, followed to its end and its result: accuracy, loss, mnist_cnn.pt",
}
"""What each part of the graph is, by the middle word of its component's type."""

# Plain rules, no variables: whatever shows SVG knows them.
STYLE = """
  text { font-family: system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328; }
  .page { fill: #ffffff; }
  .box { fill: #f6f8fa; stroke: #afb8c1; }
  .title { font-size: 15px; font-weight: 600; }
  .kind { font-size: 13px; }
  .soft { font-size: 12px; fill: #59636e; }
  .name { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: 11px; fill: #59636e; }
  .ours { fill: #8250df; }
  .kubernetes { fill: #0969da; }
  .arrow { fill: none; stroke: #818b98; stroke-width: 2; }
  .head { fill: #818b98; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; }
    .page { fill: #0d1117; }
    .box { fill: #151b23; stroke: #3d444d; }
    .soft, .name { fill: #9198a1; }
    .ours { fill: #ab7df8; }
    .kubernetes { fill: #4493f8; }
  }
"""


@dataclass(frozen=True)
class Box:
    """A part of the graph and where it lies, in pixels.

    Parameters:
        area: key of SAYS.
        columns: in which its resources are written, one below the other.
    """

    area: str
    held: Sequence[Resource]
    x: float
    y: float
    width: float
    height: float
    columns: int

    @property
    def title(self) -> str:
        return f"{self.area[0].upper()}{self.area[1:]}"


def areas(found: Sequence[Resource]) -> dict[str, list[Resource]]:
    """Area -> its resources; those without a component are the stack's own."""
    told: dict[str, list[Resource]] = {}
    for each in found:
        component = component_of(each, found)
        area = component.type.split(":")[1] if component else "stack"
        held = told.setdefault(area, [])
        if not each.is_component:
            held.append(each)
    return told


def waits(found: Sequence[Resource], parts: Mapping[str, Sequence[Resource]]) -> dict[str, set[str]]:
    """Area -> the areas that it waits for, without those that these wait for in turn."""
    home = {each.urn: area for area, held in parts.items() for each in held}
    direct = {
        area: {home[urn] for each in held for urn in each.needs if urn in home} - {area}
        for area, held in parts.items()
    }
    return {
        area: {each for each in needs if not any(each in _all(direct, other) for other in needs - {each})}
        for area, needs in direct.items()
    }


def _all(direct: Mapping[str, set[str]], area: str) -> set[str]:
    """All that `area` waits for."""
    return direct[area].union(*(_all(direct, each) for each in direct[area]))


def rows(needs: Mapping[str, set[str]]) -> list[list[str]]:
    """The areas in rows, each below all that it waits for; within a row as SAYS has them."""

    def depth(area: str) -> int:
        return max((depth(each) + 1 for each in needs[area]), default=0)

    order = list(SAYS)
    found: dict[int, list[str]] = {}
    for area in sorted(needs, key=order.index):
        found.setdefault(depth(area), []).append(area)
    return [found[level] for level in sorted(found)]


def boxes(parts: Mapping[str, Sequence[Resource]], lines: Sequence[Sequence[str]]) -> list[Box]:
    """Where everything lies."""
    placed: list[Box] = []
    y: float = MARGIN
    for line in lines:
        width = (WIDTH - 2 * MARGIN - GAP * (len(line) - 1)) / len(line)
        columns = max(1, COLUMNS // len(line))
        held = {area: _ordered(parts[area]) for area in line}
        height = HEAD + PAD + LINE * max(-(-len(each) // columns) for each in held.values())
        for place, area in enumerate(line):
            x = MARGIN + place * (width + GAP)
            placed.append(Box(area, held[area], x, y, width, height, columns))
        y += height + ARROW
    return placed


def _ordered(held: Sequence[Resource]) -> list[Resource]:
    """Each after those of the same part that it waits for; else by kind and name."""
    by_urn = {each.urn: each for each in held}

    def depth(each: Resource) -> int:
        return max((depth(by_urn[urn]) + 1 for urn in each.needs if urn in by_urn), default=0)

    return sorted(held, key=lambda each: (depth(each), each.kind, each.name))


def drawn(found: Sequence[Resource]) -> str:
    """The picture as SVG."""
    parts = areas(found)
    needs = waits(found, parts)
    placed = boxes(parts, rows(needs))
    by_area = {each.area: each for each in placed}
    arrows = [
        _arrow(by_area[tail], by_area[area])
        for area in by_area
        for tail in sorted(needs[area], key=list(SAYS).index)
    ]
    height = max(each.y + each.height for each in placed) + 2 * MARGIN + PAD
    told = ", then ".join(" and ".join(line) for line in rows(needs))
    body = [*arrows, *(text for each in placed for text in _box(each)), *_legend(height - MARGIN)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img" '
            'aria-labelledby="title description">',
            f'<title id="title">What pulumi up registers for the stack {STACK}</title>',
            f'<desc id="description">{sum(map(len, parts.values()))} resources, made in this order: {told}.</desc>',
            f"<style>{STYLE}</style>",
            '<marker id="head" markerWidth="8" markerHeight="8" refX="6" refY="4" orient="auto">'
            '<path class="head" d="M0,0 L8,4 L0,8 z"/></marker>',
            '<rect class="page" width="100%" height="100%"/>',
            *body,
            "</svg>\n",
        ]
    )


def _arrow(tail: Box, head: Box) -> str:
    """Straight down where one box is below the other: at the middle of the narrower one."""
    narrow = min(tail, head, key=lambda box: box.width)
    x = narrow.x + narrow.width / 2
    return (
        f'<path class="arrow" marker-end="url(#head)" d="M{x:g},{tail.y + tail.height:g} V{head.y - 4:g}"/>'
    )


def _box(box: Box) -> list[str]:
    texts = [
        f'<rect class="box" x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" height="{box.height:g}" rx="8"/>',
        _text("title", box.x + PAD, box.y + 22, box.title),
        _text("soft", box.x + PAD, box.y + 39, SAYS[box.area]),
    ]
    column = (box.width - PAD) / box.columns
    for place, each in enumerate(box.held):
        x = box.x + PAD + place % box.columns * column
        y = box.y + HEAD + 16 + place // box.columns * LINE
        kind = "kubernetes" if each.type.startswith("kubernetes:") else "ours"
        texts += [
            f'<circle class="{kind}" cx="{x + 4:g}" cy="{y - 4:g}" r="4"/>',
            _text("kind", x + 14, y, each.kind),
            _text("name", x + 14, y + 14, short(each.name.partition("/")[2] or each.name)),
        ]
    return texts


def short(name: str) -> str:
    """`name` with no more than MOST_LETTERS."""
    half = (MOST_LETTERS - 1) // 2
    return name if len(name) <= MOST_LETTERS else f"{name[:half]}…{name[-half:]}"


def _legend(y: float) -> list[str]:
    return [
        f'<circle class="kubernetes" cx="{MARGIN + 4}" cy="{y - 4:g}" r="4"/>',
        _text("soft", MARGIN + 14, y, "object in the cluster"),
        f'<circle class="ours" cx="{MARGIN + 174}" cy="{y - 4:g}" r="4"/>',
        _text("soft", MARGIN + 184, y, "made by a provider of this project, or of Pulumi"),
    ]


def _text(kind: str, x: float, y: float, text: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(text)}</text>'


def main() -> int:
    """Write the picture, and say whether that changed it."""
    text = drawn(resources(STACK))
    changed = not PAGE.exists() or PAGE.read_text() != text
    PAGE.write_text(text)
    print(f"{'changed' if changed else 'as it was'}: {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""report.html of a run: one file without links to other files, for screens, phones and paper."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import torch
from torch import Tensor

from trainer import drawing
from trainer.evaluation import Predictions
from trainer.examples import Examples, told_classes

MISTAKES = 25
MOST_CLASSES = 20  # the most that a confusion matrix shows
MOST_COUNTED = 1_000  # the most classes whose pairs are counted
PAIRS = "Test examples by true and predicted class"
MOST_ROWS = 100  # of the table of classes
FASHION = (
    *("T-shirt/top", "trouser", "pullover", "dress", "coat"),
    *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
)
MACHINE = ("processor", "device", "instructions", "precision", "threads", "torch", "python")
DATA = ("dataset", "validation", "train_data", "test_data")
# (key of a line of metrics.jsonl, title, from zero)
CURVES = (
    ("accuracy", "Accuracy", False),
    ("lr", "Learning rate", True),
    ("images_per_s", "Images per second", True),
)

# Colours by name, in light and in dark. A test computes the contrast of each text with its background.
LIGHT = {
    **{"page": "#ffffff", "panel": "#f3f6f9", "text": "#1b2430", "soft": "#4a5868", "rule": "#8592a0"},
    **{"line0": "#1f5f9e", "line1": "#a3400f", "link": "#1f5f9e"},
    **{"hit1": "#e6f0fa", "hit2": "#c3dbf2", "hit3": "#95bfe6"},
    **{"miss1": "#fdece2", "miss2": "#f8cdb3", "miss3": "#f0a070"},
}
DARK = {
    **{"page": "#11171e", "panel": "#1a222b", "text": "#e3e9f0", "soft": "#a9b6c4", "rule": "#74828f"},
    **{"line0": "#7bb5f2", "line1": "#f0a070", "link": "#8cc0f5"},
    **{"hit1": "#17293c", "hit2": "#1f3f5f", "hit3": "#2b5580"},
    **{"miss1": "#33221a", "miss2": "#59331f", "miss3": "#7d4220"},
}
STYLE = """
* { box-sizing: border-box }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; padding: 1rem; max-width: 64rem;
  background: var(--page); color: var(--text) }
h1 { font-size: 1.6rem; line-height: 1.2; overflow-wrap: anywhere } h2 { font-size: 1.2rem; margin-top: 2.2rem }
a { color: var(--link) } p.soft, figcaption, caption { color: var(--soft) }
nav ul { display: flex; flex-wrap: wrap; gap: .3rem 1rem; padding: 0; list-style: none }
dl.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .6rem; margin: 0 0 1rem }
dl.facts div { background: var(--panel); border-radius: .4rem; padding: .5rem .8rem }
dt { color: var(--soft); font-size: .9rem } dd { margin: 0; font-size: 1.2rem; overflow-wrap: anywhere }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 1rem }
figure { margin: 0 } svg { width: 100%; height: auto } svg text { font-size: 15px; fill: var(--soft) }
svg line { stroke: var(--rule); stroke-width: .5 } polyline { fill: none; stroke-width: 2 }
.line0 { stroke: var(--line0) } .line1 { stroke: var(--line1); stroke-dasharray: 7 4 }
.dot0 { fill: var(--line0) } .dot1 { fill: var(--line1) }
.wide { overflow-x: auto } table { border-collapse: collapse; font-variant-numeric: tabular-nums }
caption { text-align: left; padding-bottom: .3rem } th, td { padding: .2rem .6rem; text-align: right }
th { font-weight: 600 } table.words th, table.words td { text-align: left; vertical-align: top }
table.words td { overflow-wrap: anywhere; min-width: 7rem }
thead th, tbody tr { border-bottom: 1px solid var(--rule) }
.hit1 { background: var(--hit1) } .hit2 { background: var(--hit2) } .hit3 { background: var(--hit3) }
.miss1 { background: var(--miss1) } .miss2 { background: var(--miss2) } .miss3 { background: var(--miss3) }
.mistakes { display: grid; grid-template-columns: repeat(auto-fill, minmax(7rem, 1fr)); gap: .8rem; padding: 0;
  list-style: none }
.mistakes img { width: 84px; height: 84px; object-fit: contain; image-rendering: pixelated; background: #000 }
pre { background: var(--panel); padding: .8rem; white-space: pre-wrap; overflow-wrap: anywhere }
@media print { body { max-width: none; padding: 0; font-size: 11pt } nav { display: none }
  figure, tr, .mistakes li { break-inside: avoid } h2 { break-after: avoid } .wide { overflow: visible }
  * { print-color-adjust: exact } }
"""


@dataclass(frozen=True)
class Facts:
    """The content of a report.

    Parameters:
        run: its name.
        config: its config.json.
        lines: its metrics.jsonl.
        finished: the time when the run finished, as text.
        again: the command that trains the same model again in one process.
        predictions: those of the last evaluation; None if the network does not classify.
    """

    run: str
    config: dict[str, Any]
    lines: Sequence[dict[str, float]]
    finished: str
    again: str
    predictions: Predictions | None = None


def page(facts: Facts, test: Examples) -> str:
    """The report. `test`: the predicted examples."""
    sections = [
        ("result", "Result", _result(facts)),
        ("curves", "Curves", _curves(facts.lines)),
        *_classification(facts, test),
        ("configuration", "What ran", _configuration(facts.config)),
        ("again", "How to run it again", _again(facts)),
    ]
    links = "".join(f'<li><a href="#{name}">{title}</a></li>' for name, title, _ in sections)
    body = "".join(
        f'<section aria-labelledby="{name}"><h2 id="{name}">{title}</h2>{content}</section>\n'
        for name, title, content in sections
    )
    config = facts.config
    short = f"{config.get('network')} on {config.get('dataset')}, recipe {config.get('recipe')}"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(facts.run)}: training report</title><style>{_colours()}{STYLE}</style></head>\n<body>"
        f'<header><h1>{escape(facts.run)}</h1><p class="soft">{escape(short)}</p>'
        f'<nav aria-label="Sections"><ul>{links}</ul></nav></header>\n<main>{body}</main></body></html>\n'
    )


def _colours() -> str:
    def block(colours: dict[str, str]) -> str:
        return f":root {{ {'; '.join(f'--{name}: {value}' for name, value in colours.items())} }}"

    return (
        f":root {{ color-scheme: light dark }} {block(LIGHT)}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ {block(DARK)} }}"
    )


def _result(facts: Facts) -> str:
    epochs = [line for line in facts.lines if "accuracy" in line]
    last = epochs[-1] if epochs else {}
    told = [
        ("accuracy", _number(last.get("accuracy"), 4)),
        ("loss", _number(last.get("test_loss"), 4)),
        ("epochs", f"{len(epochs)} of {facts.config.get('epochs')}"),
        ("training", f"{_number(last.get('training_s'), 1)} s"),
        ("replicas", str(facts.config.get("world_size"))),
        ("finished", facts.finished),
    ]
    if facts.predictions:
        wrong = int((facts.predictions.predicted != facts.predictions.targets).sum())
        told.insert(1, ("wrong", f"{wrong} of {len(facts.predictions.targets)}"))
    cells = "".join(f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in told)
    rows = [
        [
            f"{line['epoch']:.0f}",
            f"{line['step']:.0f}",
            *(_number(line.get(key), 4) for key in ("accuracy", "test_loss")),
        ]
        for line in epochs
    ]
    head = ("epoch", "step", "accuracy", "loss")
    return f'<dl class="facts">{cells}</dl>' + table("Results on the test examples by epoch", head, rows)


def _curves(lines: Sequence[dict[str, float]]) -> str:
    def points(key: str) -> list[tuple[float, float]]:
        return [(line["step"], line[key]) for line in lines if key in line]

    loss = [("on training examples", points("loss")), ("on test examples", points("test_loss"))]
    charts = [
        ("Loss", drawing.curve("Loss", "step", loss), "solid: training examples, dashed: test examples")
    ]
    for key, title, from_zero in CURVES:
        # The first step's rate includes one-time work.
        found = points(key)[1:] if key == "images_per_s" else points(key)
        charts.append((title, drawing.curve(title, "step", [(title.lower(), found)], from_zero), "by step"))
    figures = "".join(
        f"<figure>{chart}<figcaption><strong>{title}</strong>, {said}</figcaption></figure>"
        for title, chart, said in charts
    )
    return f'<div class="charts">{figures}</div>'


def _classification(facts: Facts, test: Examples) -> list[tuple[str, str, str]]:
    """Sections about predicted classes; empty if the network is no classifier."""
    found = facts.predictions
    if found is None or not len(found.targets):
        return []
    count = int(torch.maximum(found.targets, found.predicted).max()) + 1
    names = _names(test, str(facts.config.get("dataset")), count)
    mistakes = ("mistakes", "Most confident mistakes", _mistakes(found, test, names))
    if count > MOST_COUNTED:
        return [mistakes]
    counts = torch.bincount(found.targets * count + found.predicted, minlength=count * count).reshape(
        count, count
    )
    return [
        ("confusion", "Confusion matrix", _confusion(counts, names)),
        ("classes", "Classes", _classes(counts, names)),
        mistakes,
    ]


def _names(test: Examples, dataset: str, count: int) -> list[str]:
    named = FASHION if dataset == "fashion-mnist" else told_classes(test)
    named = named if isinstance(named, Sequence) else ()
    return [str(name) for name in named] if len(named) >= count else [str(number) for number in range(count)]


def _confusion(counts: Tensor, names: Sequence[str]) -> str:
    if len(counts) > MOST_CLASSES:
        return _confused_pairs(counts, names)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names[: len(counts)])
    rows = ""
    for number, row in enumerate(counts.tolist()):
        whole = max(sum(row), 1)
        cells = "".join(
            f"<td{_level(at == number, value / whole)}>{value}</td>" for at, value in enumerate(row)
        )
        rows += f'<tr><th scope="row">{escape(names[number])}</th>{cells}</tr>'
    return (
        '<p class="soft">A row is a true class, a column what was predicted. Stronger colour: a larger part of the '
        "row; blue is right, orange is wrong.</p>"
        f'<div class="wide" tabindex="0" role="region" aria-label="{PAIRS}"><table>'
        f"<caption>{PAIRS}</caption>"
        f'<thead><tr><th scope="col">true \\ predicted</th>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _level(right: bool, part: float) -> str:
    """The CSS class of a cell whose number is `part` of its row's sum, 0 to 1."""
    steps = (0.0, 0.9, 0.98) if right else (0.0, 0.01, 0.05)
    level = sum(part >= step for step in steps) if part else 0
    return f' class="{"hit" if right else "miss"}{level}"' if level else ""


def _confused_pairs(counts: Tensor, names: Sequence[str]) -> str:
    wrong = counts.clone().fill_diagonal_(0).flatten()
    most = torch.argsort(wrong, descending=True, stable=True)[:MISTAKES].tolist()
    rows = [
        [names[at // len(counts)], names[at % len(counts)], str(int(wrong[at]))]
        for at in most
        if wrong[at] > 0
    ]
    return table(
        f"Of {len(counts)} classes, those confused most often", ("true", "predicted", "examples"), rows
    )


def _classes(counts: Tensor, names: Sequence[str]) -> str:
    rows = []
    for number, row in enumerate(counts.tolist()):
        right, there, taken = row[number], sum(row), int(counts[:, number].sum())
        others = [0 if at == number else value for at, value in enumerate(row)]
        most = max(range(len(others)), key=others.__getitem__)
        recall, precision = right / there if there else None, right / taken if taken else None
        f1 = 2 * right / (there + taken) if there + taken else None
        rows.append(
            (
                1.0 if recall is None else recall,
                [
                    *(names[number], str(there), _number(recall, 4), _number(precision, 4), _number(f1, 4)),
                    f"{names[most]} ({others[most]})" if others[most] else "none",
                ],
            )
        )
    head = ("class", "examples", "recall", "precision", "F1", "most often taken for")
    title = (
        "Recall: part of the class's examples that were recognized. Precision: part of what was taken for it"
    )
    if len(rows) > MOST_ROWS:
        rows.sort(key=lambda each: each[0])
        title = f"The {MOST_ROWS} of {len(rows)} classes with the lowest recall. {title}"
    return table(title, head, [cells for _, cells in rows[:MOST_ROWS]])


def _mistakes(found: Predictions, test: Examples, names: Sequence[str]) -> str:
    """The most confident mistakes, as pictures if the examples have the shape of one."""
    wrong = (found.predicted != found.targets).nonzero().flatten()
    surest = torch.argsort(found.confidence[wrong], descending=True, stable=True)[:MISTAKES]
    if not len(surest):
        return "<p>None: every test example was recognized.</p>"
    items = ""
    for at in wrong[surest].tolist():
        true, predicted = names[int(found.targets[at])], names[int(found.predicted[at])]
        said = f"true {true}, predicted {predicted}, {float(found.confidence[at]):.1%}"
        image = _image(test, int(found.numbers[at]), said)
        items += f"<li><figure>{image}<figcaption>{escape(said)}</figcaption></figure></li>"
    explained = "The percentage is the probability that the network gave to its answer."
    return f'<p class="soft">{explained}</p><ul class="mistakes">{items}</ul>'


def _image(test: Examples, number: int, said: str) -> str:
    try:
        values = test.input(number)
    except Exception:  # the user's data set may raise anything
        values = None
    pixels = None if values is None else drawing.picture(values)
    if pixels is None:
        return f"<p>test example {number}</p>"
    height, width = pixels.shape[:2]
    return (
        f'<img width="{width}" height="{height}" alt="test example {number}: {escape(said)}" '
        f'src="{drawing.data_url(drawing.png(pixels))}">'
    )


def _configuration(config: dict[str, Any]) -> str:
    other = [key for key in config if key not in (*DATA, *MACHINE)]
    groups = (("Configuration", other), ("Data", DATA), ("Machine of rank 0", MACHINE))
    return "".join(
        table(
            title, ("key", "value"), [(key, _text(config[key])) for key in keys if key in config], words=True
        )
        for title, keys in groups
    ) + (
        '<p class="soft">Data are described by shape and by CRC-32 checksums of some inputs and all targets. The '
        "container does not know its own image and commit: <code>make up</code> adds them below.</p>"
    )


def _again(facts: Facts) -> str:
    return (
        "<p>In the project, with the same stack file, <code>make up STACK=…</code> finds this run finished and reports "
        "its result. To train it once more, give the job another <code>rerun</code>. Without a cluster, in one process "
        f"with torch installed:</p><pre>{escape(facts.again)}</pre>"
    )


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _text(value: object) -> str:
    return "" if value is None else str(value)


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]], words: bool = False) -> str:
    """An HTML table of texts, which are escaped; the first cell of a row is its heading.

    Parameters:
        words: whether the cells are words, not numbers.
    """
    top = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    kind = ' class="words"' if words else ""
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(title)}"><table{kind}>'
        f"<caption>{escape(title)}</caption><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )

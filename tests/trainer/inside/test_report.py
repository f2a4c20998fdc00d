"""report.html: valid, whole in one file, readable by everybody, and true to what the network answered."""

from __future__ import annotations

import base64
import io
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import html5lib
import pytest
import torch
from PIL import Image
from torch import Tensor

from tests.inside.conftest import Job
from tests.inside.own import Files, Stream
from trainer import drawing, report
from trainer.evaluation import Predictions
from trainer.examples import Examples, Mapped, Streamed, Tensors

CONFIG = {"network": "lenet", "dataset": "mnist", "recipe": "fast", "epochs": 2, "world_size": 1, "lr": 0.01}
LINES = [
    {"step": 0, "epoch": 1, "loss": 2.3, "images_per_s": 10.0, "lr": 0.01},
    {"step": 9, "epoch": 1, "loss": 1.3, "images_per_s": 90.0, "lr": 0.02},
    {"step": 10, "epoch": 1, "accuracy": 0.5, "test_loss": 1.2, "training_s": 3.0},
    {"step": 19, "epoch": 2, "loss": 0.3, "images_per_s": 99.0, "lr": 0.005},
    {"step": 20, "epoch": 2, "accuracy": 0.7, "test_loss": 0.2, "training_s": 6.0},
]
SPACE = "{http://www.w3.org/1999/xhtml}"


def parsed(page: str) -> Any:
    """The page's tree. Raises html5lib's ParseError for whatever the standard calls a parse error."""
    return html5lib.HTMLParser(strict=True).parse(page)


def elements(tree: Any, *names: str) -> Iterator[Any]:
    for each in tree.iter():
        if isinstance(each.tag, str) and each.tag.rpartition("}")[2] in names:
            yield each


def text(element: Any) -> str:
    return "".join(element.itertext())


def section(tree: Any, name: str) -> Any:
    (found,) = [each for each in elements(tree, "section") if each.get("aria-labelledby") == name]
    return found


def answers(targets: list[int], predicted: list[int], confidence: list[float] | None = None) -> Predictions:
    sure = confidence or [0.5 + 0.4 * number / len(targets) for number in range(len(targets))]
    return Predictions(
        torch.arange(len(targets)), torch.tensor(targets), torch.tensor(predicted), torch.tensor(sure)
    )


def made(predictions: Predictions | None, test: Examples, **config: Any) -> str:
    facts = report.Facts("run <1>", {**CONFIG, **config}, LINES, "2026-01-02 03:04 UTC", "again", predictions)
    return report.page(facts, test)


def images(count: int = 40, shape: tuple[int, ...] = (28, 28)) -> Tensor:
    return torch.randint(256, (count, *shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


class Refusing(Files):
    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        raise KeyError(number)


LABELS = torch.arange(40) % 5
WRONG = answers(LABELS.tolist(), ((LABELS + 1) % 5).tolist())
PARTS: dict[str, Examples] = {
    "bytes": Tensors(images(), LABELS),
    "channel first": Tensors(images(shape=(3, 20, 24)).float(), LABELS),
    "channel last": Tensors(images(shape=(20, 24, 3)), LABELS),
    "large": Tensors(images(shape=(3, 300, 200)), LABELS),
    "feature vectors": Tensors(torch.randn(40, 64), LABELS),
    "many dimensions": Tensors(torch.randn(40, 5, 4, 3, 2), LABELS),
    "scalars": Tensors(torch.randn(40), LABELS),
    "files": Mapped(Files((images(shape=(3, 20, 24)).float(), LABELS))),
    "files that cannot be read again": Mapped(Refusing((images(), LABELS))),
    "stream": Streamed(Stream((images(), LABELS))),
}
PAGES = {
    **{name: made(WRONG, part) for name, part in PARTS.items()},
    "no classifier": made(None, PARTS["bytes"]),
    "nothing wrong": made(answers([0, 1, 2], [0, 1, 2]), PARTS["bytes"]),
    "one class": made(answers([0], [0]), PARTS["bytes"]),
    "nothing classified": made(answers([], []), PARTS["bytes"]),
    "30 classes": made(answers([0, 29, 5], [0, 7, 29]), PARTS["bytes"]),
    "200 classes": made(answers([0, 199], [7, 5]), PARTS["bytes"]),
    "100,000 classes": made(answers([0, 99_999], [0, 7]), PARTS["bytes"]),
    "nothing logged": report.page(report.Facts("run", {}, [], "", ""), PARTS["bytes"]),
}


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_valid_and_needs_nothing_but_itself(name: str) -> None:
    tree = parsed(PAGES[name])
    for each in tree.iter():
        for key, value in each.attrib.items():
            if key.rpartition("}")[2] in ("href", "src", "srcset", "data", "action", "poster"):
                assert value.startswith(("#", "data:image/png;base64,")), (each.tag, value)
    assert not list(elements(tree, "script", "link", "iframe", "object", "embed", "form", "base"))
    (style,) = elements(tree, "style")
    assert not re.search(r"url\(|@import|@font-face", text(style))
    assert "http" not in PAGES[name]


@pytest.mark.parametrize("name", PAGES)
def test_the_page_can_be_listened_to(name: str) -> None:
    """Language, title, headings in order, alternative texts, headings of tables, links that lead somewhere."""
    tree = parsed(PAGES[name])
    (html,) = [tree] if tree.tag.endswith("html") else elements(tree, "html")
    assert html.get("lang") == "en"
    assert next(text(each) for each in elements(tree, "title"))
    levels = [int(each.tag[-1]) for each in elements(tree, "h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert all(each.get("alt") and each.get("width") and each.get("height") for each in elements(tree, "img"))
    assert all(each.get("role") == "img" and each.get("aria-label") for each in elements(tree, "svg"))
    ids = Counter(each.get("id") for each in tree.iter() if each.get("id"))
    assert set(ids.values()) == {1}
    assert {each.get("href") for each in elements(tree, "a")} == {f"#{name}" for name in ids}
    assert {each.get("aria-labelledby") for each in elements(tree, "section")} == set(ids)
    places = [each.get("aria-label") for each in tree.iter() if each.get("role") == "region"]
    places += [text(each) for each in elements(tree, "h2")]
    assert len(places) == len(set(places)), "who jumps from place to place tells them apart by name"
    for each in elements(tree, "table"):
        assert text(next(elements(each, "caption")))
        assert all(cell.get("scope") in ("row", "col") for cell in elements(each, "th"))
    (viewport,) = [each for each in elements(tree, "meta") if each.get("name") == "viewport"]
    assert "width=device-width" in viewport.get("content")


def luminance(colour: str) -> float:
    """WCAG 2.2's relative luminance of #rrggbb."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    brighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


GROUNDS = ("page", "panel", *(f"{kind}{level}" for kind in ("hit", "miss") for level in (1, 2, 3)))
# WCAG 2.2, 1.4.3: 4.5 for text; 1.4.11: 3 for what else has to be seen.
PAIRS = [
    *(("text", ground, 4.5) for ground in GROUNDS),
    *((name, ground, 4.5) for name in ("soft", "link") for ground in ("page", "panel")),
    *((name, "page", 3.0) for name in ("line0", "line1", "rule")),
]


@pytest.mark.parametrize("scheme", ["LIGHT", "DARK"])
def test_every_colour_can_be_told_from_its_ground(scheme: str) -> None:
    colours = getattr(report, scheme)
    low = {
        (front, ground): contrast(colours[front], colours[ground])
        for front, ground, least in PAIRS
        if contrast(colours[front], colours[ground]) < least
    }
    assert low == {}
    assert set(colours) == {name for front, ground, _ in PAIRS for name in (front, ground)}
    assert set(re.findall(r"var\(--(\w+)\)", report.STYLE)) == set(colours), "each is used, and none else"


def test_the_measure_of_contrast_is_the_standards() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_the_matrix_counts_what_was_taken_for_what() -> None:
    targets, predicted = [0, 0, 0, 1, 1, 2], [0, 0, 1, 1, 2, 2]
    tree = parsed(made(answers(targets, predicted), PARTS["bytes"], dataset="own"))
    (matrix,) = elements(section(tree, "confusion"), "tbody")
    rows = [[int(text(cell)) for cell in elements(row, "td")] for row in elements(matrix, "tr")]
    assert rows == [[2, 1, 0], [0, 1, 1], [0, 0, 1]]
    (classes,) = elements(section(tree, "classes"), "tbody")
    first = [text(cell) for cell in next(elements(classes, "tr"))]
    assert first == ["0", "3", "0.6667", "1.0000", "0.8000", "1 (1)"]


def test_the_surest_mistakes_are_shown_as_they_are() -> None:
    part = PARTS["bytes"]
    sure = [0.1 + 0.02 * (number * 7 % 40) for number in range(40)]
    predicted = LABELS.clone()
    predicted[::2] = (LABELS[::2] + 1) % 5
    page = made(answers(LABELS.tolist(), predicted.tolist(), sure), part)
    shown = list(elements(section(parsed(page), "mistakes"), "img"))
    numbers = [int(re.findall(r"example (\d+)", each.get("alt"))[0]) for each in shown]
    assert numbers == sorted(range(0, 40, 2), key=lambda number: -sure[number])
    assert f"true {LABELS[numbers[0]]}, predicted {predicted[numbers[0]]}, 86.0%" in shown[0].get("alt")
    for number, each in zip(numbers, shown, strict=True):
        with Image.open(io.BytesIO(base64.b64decode(each.get("src").partition(",")[2]))) as picture:
            assert picture.mode == "L"
            assert picture.tobytes() == part.input(number).numpy().tobytes()  # type: ignore[union-attr]


def test_no_more_than_25_mistakes_are_shown() -> None:
    page = PAGES["bytes"]
    assert len(list(elements(section(parsed(page), "mistakes"), "img"))) == report.MISTAKES == 25


@pytest.mark.parametrize("name", PARTS)
def test_an_example_without_a_picture_is_named(name: str) -> None:
    mistakes = section(parsed(PAGES[name]), "mistakes")
    pictured = name in ("bytes", "channel first", "channel last", "large", "files")
    assert len(list(elements(mistakes, "img"))) == (25 if pictured else 0)
    assert text(mistakes).count("true ") == 25


def test_classes_have_the_names_of_the_data_set() -> None:
    assert "true a, predicted b" in PAGES["files"]
    fashion = made(answers([0, 9], [6, 9]), PARTS["bytes"], dataset="fashion-mnist")
    assert "true T-shirt/top, predicted shirt" in fashion


@pytest.mark.parametrize(
    ("values", "mode"),
    [
        (images(1)[0], "L"),
        (torch.randn(28, 28), "L"),
        (torch.randn(1, 28, 28), "L"),
        (torch.randn(28, 28, 1), "L"),
        (torch.randn(3, 20, 24), "RGB"),
        (torch.randn(20, 24, 3), "RGB"),
        (torch.randn(500, 300), "L"),
        (torch.rand(8, 8) > 0.5, "L"),
        (torch.randint(-100, 100, (8, 8)), "L"),
        (torch.randn(8, 8).bfloat16(), "L"),
        (torch.full((8, 8), math.nan), "L"),
        (torch.full((8, 8), math.inf), "L"),
        (torch.ones(8, 8), "L"),
        (torch.randn(8, 8, requires_grad=True), "L"),
    ],
)
def test_what_is_a_picture_becomes_one(values: Tensor, mode: str) -> None:
    pixels = drawing.picture(values)
    assert pixels is not None
    with Image.open(io.BytesIO(drawing.png(pixels))) as picture:
        picture.load()
        assert picture.mode == mode
        assert max(picture.size) <= drawing.LARGEST
        assert picture.tobytes() == pixels.contiguous().numpy().tobytes()


@pytest.mark.parametrize(
    "shape", [(), (64,), (2, 2), (3, 3), (4, 20, 20), (3, 2, 20), (20, 20, 2), (2, 3, 20, 20)]
)
def test_what_is_none_is_not_drawn(shape: tuple[int, ...]) -> None:
    assert drawing.picture(torch.randn(shape)) is None
    assert drawing.picture(torch.zeros(shape, dtype=torch.complex64)) is None


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 1), (0, 0), (5, 5), (-3, 2), (0, 1e-9), (0, 1e12), (0.91, 0.99), (-2, -1), (1e-7, 3), (0, 0.3)],
)
def test_the_ticks_are_few_even_and_hold_all_values(low: float, high: float) -> None:
    marks = drawing.ticks(low, high)
    assert 2 <= len(marks) <= drawing.TICKS + 3
    span = marks[-1] - marks[0]
    assert marks[0] <= low + 1e-6 * span
    assert marks[-1] >= high - 1e-6 * span
    assert len({round((after - before) / span, 6) for before, after in itertools.pairwise(marks)}) == 1


def test_a_long_line_is_thinned_and_a_broken_one_is_drawn_where_it_can() -> None:
    many = [(float(step), 1 / (step + 1)) for step in range(100_001)]
    drawn = drawing.curve("Loss", "step", [("loss", many)])
    assert drawn.count(",") < 2 * drawing.MOST_POINTS
    assert "from 1 to 1e-05" in drawn, "the last point stays"
    broken = drawing.curve("Loss", "step", [("loss", [(0, 1.0), (1, math.nan), (2, math.inf), (3, 2.0)])])
    assert "nan" not in broken
    assert "inf" not in broken
    assert "<circle" in drawing.curve("Loss", "step", [("loss", [(0, 1.0)])]), "one point is a dot"


@pytest.mark.parametrize("world", [1, 3])
def test_the_report_of_a_training_agrees_with_its_result(job: Job, world: int) -> None:
    output = job.train("--epochs", "2", world=world)
    tree = parsed((job.folder() / "report.html").read_text())
    accuracy = float(re.findall(r"^accuracy=(.*)$", output, re.MULTILINE)[-1])
    (wrong,) = re.findall(r"wrong(\d+) of 355", text(section(tree, "result")))
    assert round(1 - int(wrong) / 355, 4) == accuracy
    (matrix,) = elements(section(tree, "confusion"), "tbody")
    assert sum(int(text(cell)) for cell in elements(matrix, "td")) == 355
    assert len(list(elements(section(tree, "mistakes"), "img"))) == min(int(wrong), 25)
    said = text(section(tree, "configuration"))
    assert all(name in said for name in ("processor", "torch", "train_data", "test_data"))


def test_the_command_in_the_report_trains_the_same_again(job: Job) -> None:
    job.train("--epochs", "2", "--lr", "0.05", "--batch-size", "32")
    (command,) = elements(section(parsed((job.folder() / "report.html").read_text()), "again"), "pre")
    words = text(command).split()
    assert words[:3] == ["python3", "-m", "trainer"]
    job.train(*words[3:], run="again")
    numbers = [
        [line for line in (job.folder(run) / "metrics.jsonl").read_text().splitlines() if "accuracy" in line][
            -1
        ]
        for run in ("run", "again")
    ]
    accuracies = [re.findall(r'"accuracy": ([\d.]+)', line) for line in numbers]
    assert accuracies[0] == accuracies[1]


@pytest.mark.parametrize(
    ("network", "data"), [("Normed", "colours"), ("Normed", "files"), ("Normed", "streams")]
)
def test_own_data_are_reported(job: Job, network: str, data: str) -> None:
    job.train("--network", f"tests.inside.own:{network}", "--data", f"tests.inside.own:{data}")
    tree = parsed((job.folder() / "report.html").read_text())
    (matrix,) = elements(section(tree, "confusion"), "tbody")
    assert sum(int(text(cell)) for cell in elements(matrix, "td")) == 30


def test_the_report_costs_no_second_pass(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of 10,000 examples it asks the data set for those 25 that it shows."""
    asked: list[int] = []

    class Counted(Tensors):
        def input(self, number: int) -> Tensor:
            asked.append(number)
            return super().input(number)

        def batches(self, *_: Any) -> Any:
            raise AssertionError("evaluated again")

    labels = torch.arange(10_000) % 10
    test = Counted(images(10_000), labels)
    made(answers(labels.tolist(), ((labels + 1) % 10).tolist()), test)
    assert len(asked) == 25

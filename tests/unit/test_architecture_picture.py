"""docs/architecture.svg: made from the program's own graph, whole and fresh."""

from __future__ import annotations

import functools
import itertools
import xml.etree.ElementTree as ElementTree

import pytest

from tests.pictures import architecture
from tests.pictures.registered import Resource, resources

SVG = "{http://www.w3.org/2000/svg}"


@functools.cache
def registered() -> list[Resource]:
    return resources(architecture.STACK)


@pytest.fixture
def found() -> list[Resource]:
    return registered()


def test_the_picture_is_fresh(found: list[Resource]) -> None:
    stale = "run `.venv/bin/python -m tests.pictures.architecture` and commit docs/architecture.svg"
    assert architecture.drawn(found) == architecture.PAGE.read_text(), stale


def test_the_order_is_that_of_readme(found: list[Resource]) -> None:
    needs = architecture.waits(found, architecture.areas(found))
    assert architecture.rows(needs) == [
        ["stack"],
        ["cluster"],
        ["operator", "storage", "image"],
        ["job"],
    ]


def test_every_resource_is_drawn_once_and_waits_for_none_below_it(found: list[Resource]) -> None:
    parts = architecture.areas(found)
    placed = architecture.boxes(parts, architecture.rows(architecture.waits(found, parts)))
    drawn = [(each.urn, place) for place, box in enumerate(placed) for each in box.held]
    made = [each for each in found if not each.is_component]
    assert len(made) > 25
    assert sorted(urn for urn, _ in drawn) == sorted(each.urn for each in made)
    order = [urn for urn, _ in drawn]
    for each in made:
        late = [urn for urn in each.needs if urn in order and order.index(urn) > order.index(each.urn)]
        assert late == [], each.urn


def test_no_two_boxes_overlap_and_all_lie_on_the_page(found: list[Resource]) -> None:
    parts = architecture.areas(found)
    placed = architecture.boxes(parts, architecture.rows(architecture.waits(found, parts)))
    for one, other in itertools.combinations(placed, 2):
        apart = one.x + one.width <= other.x or other.x + other.width <= one.x
        assert apart or one.y + one.height < other.y or other.y + other.height < one.y, (one.area, other.area)
    page = ElementTree.fromstring(architecture.PAGE.read_text())
    _, _, width, height = map(float, page.attrib["viewBox"].split())
    assert all(each.x + each.width <= width and each.y + each.height <= height for each in placed)


def test_the_picture_has_a_text_for_those_who_do_not_see_it() -> None:
    page = ElementTree.parse(architecture.PAGE).getroot()
    texts = {each.attrib["id"]: each.text for each in page if each.tag in (f"{SVG}title", f"{SVG}desc")}
    assert page.attrib["role"] == "img"
    assert page.attrib["aria-labelledby"].split() == list(texts)
    assert "operator and storage and image" in (texts["description"] or "")


@pytest.mark.parametrize(
    ("name", "shown"),
    [("kubeflow/models", "kubeflow/models"), ("a" * 30 + "b" * 30, "a" * 18 + "…" + "b" * 18)],
)
def test_a_long_name_loses_its_middle(name: str, shown: str) -> None:
    assert architecture.short(name) == shown
    assert len(shown) <= architecture.MOST_LETTERS

"""The report of the main job's real run, opened in a real browser: what is on it, on a phone, a desk and paper."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.browser import chromium
from tests.browser.chromium import DESK, PHONE, Seen
from toolchain.machine.engine import Engine

MISTAKES = 25
WHITE, TRANSPARENT = "rgb(255, 255, 255)", "rgba(0, 0, 0, 0)"
TABLES = {
    "Results on the test examples by epoch": 2,
    "Test examples by true and predicted class": 11,
    "Recall: part of the class's examples that were recognized. Precision: part of what was taken for it": 11,
    "Configuration": 10,
    "Data": 5,
    "Machine of rank 0": 8,
    "Origin": 4,
    "Timeline": 5,
}
"""Caption -> rows that there are at least, its heading among them."""


@pytest.fixture(scope="module")
def seen(engine: Engine, up: dict[str, str]) -> Seen:
    """What a browser shows of the report that `make up` names."""
    (report,) = re.findall(r"^report: (.+)$", up["output"], re.MULTILINE)
    return chromium.look(engine, Path(report))


def test_nothing_is_wrong_with_it(seen: Seen) -> None:
    """Headings, alternative texts and contrast (axe-core), the console, the network, the width."""
    views = [(each["given"], each["scheme"]) for each in seen.views]
    assert views == [(width, scheme) for width in (PHONE, DESK) for scheme in ("light", "dark")]
    assert seen.faults() == []
    assert all(
        {"color-contrast", "image-alt", "heading-order"} <= {*each["axe"]["kept"]} for each in seen.views
    )


def test_it_says_what_make_up_says(seen: Seen, up: dict[str, str]) -> None:
    for view in seen.views:
        assert float(view["facts"]["accuracy"]) == pytest.approx(float(up["accuracy"]), abs=1e-4)
        assert float(view["facts"]["loss"]) == pytest.approx(float(up["loss"]), abs=1e-4)
        assert view["facts"]["replicas"] == "2"
        assert view["title"].startswith("pytorch-simple-")


def test_curves_tables_and_mistakes_are_there(seen: Seen) -> None:
    for view in seen.views:
        assert sum(length > 0 for length in view["curves"]) >= 3, "loss, learning rate, images per second"
        assert [name for name, rows in TABLES.items() if view["tables"].get(name, 0) < rows] == []
        assert 0 < len(view["images"]) <= MISTAKES
        assert all(re.search(r"true .+, predicted .+, [\d.]+%$", each["alt"]) for each in view["images"])
        assert "python3 -m trainer" in view["text"], "how to run it again"


def test_light_and_dark_differ_and_paper_is_white(seen: Seen) -> None:
    light, dark = (
        {each["background"] for each in seen.views if each["scheme"] == scheme}
        for scheme in ("light", "dark")
    )
    assert light == {WHITE}
    assert len(dark) == 1
    assert dark.isdisjoint({WHITE, TRANSPARENT})
    assert seen.paper["background"] == WHITE, "also for who reads in the dark"
    assert seen.paper["navigates"] == [False], "nobody can follow a link on paper"


def test_its_pictures_are_whole(seen: Seen, tmp_path: Path) -> None:
    for name, data in seen.pictures().items():
        (tmp_path / name).write_bytes(data)
        assert len(data) > 20_000, name

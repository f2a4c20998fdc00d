"""A page, looked at in a real browser: Debian's Chromium, in a container without a network."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import containers
from toolchain.machine.engine import Engine
from toolchain.paths import LOCAL, ROOT
from toolchain.tools import venv

HERE = Path(__file__).resolve().parent
INSIDE = HERE / "inside"
SUITE = HERE.name
LOCK = ROOT / "requirements-browser.lock"
PHONE, DESK = 390, 1280
"""Widths in pixels of CSS."""


@dataclass(frozen=True)
class Seen:
    """What a browser has told of a page.

    Parameters:
        views: on screens, in each width in light and in dark; their keys are those of tests/browser/inside/look.py.
        paper: the same in print.
    """

    browser: str
    views: list[dict[str, Any]]
    paper: dict[str, Any]

    def faults(self) -> list[str]:
        """What is wrong with any page, whatever it says: in sentences, each with the view where it was seen."""
        return [
            f"{each['given']} pixels, {each['scheme']}: {fault}"
            for each in self.views
            for fault in _faults(each)
        ]

    def pictures(self) -> dict[str, bytes]:
        """Name of each view -> the whole page as PNG; and `paper` as PDF."""
        found = {f"{each['given']}-{each['scheme']}.png": each["picture"] for each in self.views}
        return {
            name: base64.b64decode(data) for name, data in {**found, "paper.pdf": self.paper["pages"]}.items()
        }

    def top(self, width: int, scheme: str = "light") -> bytes:
        """The first screen in `width` as PNG."""
        (view,) = [each for each in self.views if (each["given"], each["scheme"]) == (width, scheme)]
        return base64.b64decode(view["top"])


def _faults(view: dict[str, Any]) -> Iterator[str]:
    for rule, places in view["axe"]["wrong"].items():
        yield f"axe-core {view['axe']['version']}, {rule}: {places[0]}"
    for message in view["console"]:
        yield f"on the console: {message}"
    for address in view["asked"]:
        yield f"asks for {address}"
    for image in view["images"]:
        if not (image["width"] and image["shown"]):
            yield f"an image is not shown: {image['alt']}"
    for link in view["links"]:
        if not link["leads"]:
            yield f"a link leads nowhere: {link['to']}"
    for text in view["cut"]:
        yield f"a text leaves its picture: {text}"
    for one, other in view["covered"]:
        yield f"two texts lie over each other: {one}, {other}"
    if view["width"] > view["given"]:
        yield f"is {view['width']} pixels wide, so that it has to be moved to and fro"


def axe() -> Path:
    """axe-core's script, out of a package that carries it."""
    programs = venv.ensure_beside(LOCAL / "browser", LOCK)
    (script,) = programs.parent.glob("lib/python*/site-packages/axe_playwright_python/axe.min.js")
    return script


def of_site(site: Path | None) -> dict[str, Path]:
    """The files of a site, as a container is given them."""
    return (
        {f"site/{each.relative_to(site)}": each for each in site.rglob("*") if each.is_file()} if site else {}
    )


def look(engine: Engine, page: Path, *widths: int, site: Path | None = None) -> Seen:
    """Open `page`, a file, in `widths`; PHONE and DESK where none are given.

    Parameters:
        site: the folder with everything that the page asks for; without it the page stands alone.
    """
    name = f"site/{page.relative_to(site)}" if site else "page.html"
    files = {**of_site(site), name: page, "axe.js": axe(), "look.py": INSIDE / "look.py"}
    look, *given = [f"{containers.GIVEN}/{each}" for each in ("look.py", name, "axe.js")]
    asked = [str(each) for each in widths or (PHONE, DESK)]
    done = containers.run(engine, SUITE, ["python3", look, *given, *asked], files)
    assert done.returncode == 0, done.stderr[-5000:]
    told = json.loads(done.stdout)
    return Seen(told["browser"], told["views"], told["paper"])

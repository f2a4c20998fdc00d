"""The documents' pictures, as a browser draws them: whole, and each text in its place."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.browser import chromium
from toolchain.machine.engine import Engine
from toolchain.paths import ROOT

PICTURES = sorted((ROOT / "docs").rglob("*.svg"))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.stem)
def test_nothing_is_wrong_with_a_picture(engine: Engine, tmp_path: Path, picture: Path) -> None:
    """It stands in the page twice: as a document shows it, strict about XML, and where its texts can be measured."""
    shown = base64.b64encode(picture.read_bytes()).decode()
    page = tmp_path / "page.html"
    page.write_text(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>t</title></head><body><main><h1>h</h1>'
        f'<img alt="as a document shows it" src="data:image/svg+xml;base64,{shown}" style="width: 100%">'
        f"<div>{picture.read_text()}</div></main></body></html>"
    )
    assert chromium.look(engine, page, chromium.DESK).faults() == []

"""The look itself: it finds nothing wrong with a good page, and each fault of a bad one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests import containers
from tests.browser import chromium
from tests.browser.chromium import Seen
from toolchain.machine.engine import Engine

HEAD = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>t</title>'
    '<meta name="viewport" content="width=device-width"></head><body><main><h1>h</h1>'
)
FAULTS = {
    "color-contrast": '<p style="color: #bbbbbb; background: #ffffff">pale</p>',
    "image-alt": '<img src="data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///ywAAAAAAQABAAACAUwAOw==">',
    "on the console": '<script>console.error("broken")</script>',
    "asks for https://example.com/": '<link rel="stylesheet" href="https://example.com/style.css">',
    "an image is not shown: gone": '<img alt="gone" src="data:image/png;base64,AAAA">',
    "a link leads nowhere: #nowhere": '<a href="#nowhere">away</a>',
    "a text leaves its picture: too long": '<svg width="40" height="20"><text y="15">too long</text></svg>',
    "two texts lie over each other: one, two": '<svg><text y="20">one</text><text x="5" y="22">two</text></svg>',
    "pixels wide, so that it has to be moved": '<div style="width: 3000px">wide</div>',
}


@pytest.fixture(scope="module")
def seen(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Seen]:
    """Looks at a page of this body, as a phone does."""

    def look(body: str) -> Seen:
        page = tmp_path_factory.mktemp("page") / "page.html"
        page.write_text(f"{HEAD}{body}</main></body></html>")
        return chromium.look(engine, page, chromium.PHONE)

    return look


def test_a_good_page_has_no_faults(seen: Callable[[str], Seen]) -> None:
    found = seen("<p>good</p>")
    assert found.faults() == []
    assert [(each["given"], each["scheme"], each["text"]) for each in found.views] == [
        (chromium.PHONE, scheme, "h\n\ngood") for scheme in ("light", "dark")
    ]
    assert all(picture.startswith((b"\x89PNG", b"%PDF")) for picture in found.pictures().values())


def test_each_fault_is_found(seen: Callable[[str], Seen]) -> None:
    told = seen("".join(FAULTS.values())).faults()
    assert [fault for fault in FAULTS if not any(fault in line for line in told)] == [], told


def test_the_container_reaches_nobody(engine: Engine) -> None:
    script = "import socket; print(socket.create_connection(('1.1.1.1', 53), 5))"
    done = containers.run(engine, chromium.SUITE, ["python3", "-c", script], {})
    assert done.returncode != 0
    assert "Network is unreachable" in done.stderr


def test_the_page_is_a_file(tmp_path: Path) -> None:
    """The script comes from the lock, and no browser with it."""
    assert chromium.axe().read_text().startswith("/*! axe v4")
    assert not list((chromium.axe().parents[1]).glob("playwright"))

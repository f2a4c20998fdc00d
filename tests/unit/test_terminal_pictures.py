"""Terminal pictures: what a terminal shows after our commands and the live view, and its SVG."""

from __future__ import annotations

import os
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.pictures import terminal
from tests.pictures.terminal import Rows, plain

LIVE = """
import sys, time
from rich.text import Text
from infra.screen.__main__ import Foot
foot = Foot(sys.stderr)
for step in range(1, 4):
    row = Text(f"epoch {step} ", style="red").append("━━━", style="green")
    foot.draw([f"line {step}"], [row] * (4 - step), 80, 24)
foot.end(80)
print("over ✓", flush=True)
Foot(sys.stderr).draw([], [Text("stays")], 80, 24)
"""


@pytest.mark.parametrize("cut", range(1, 30))
def test_output_may_come_in_any_pieces(cut: int) -> None:
    whole = "\x1b[31mred\x1b[0m\r\nstep 1\r\x1b[Kstep 2\r\nfoot\r\n\r\x1b[1A\x1b[Jend\r\n"
    rows = Rows()
    for at in range(0, len(whole), cut):
        rows.write(whole[at : at + cut])
    assert [plain(row) for row in rows.shown()] == ["red", "step 2", "end"]
    assert rows.shown()[0] == "\x1b[31mred\x1b[0m"


def test_a_command_is_run_on_a_terminal_and_its_best_moment_kept() -> None:
    environment = {**os.environ, "LIVE": LIVE, "CI": "true"}
    command = f'{sys.executable} -c "$LIVE"; exit 3'

    def kept(rows: list[str]) -> bool:
        return any("epoch 2" in row for row in rows)

    root = Path(__file__).resolve().parents[2]
    done = terminal.run(command, root, environment, kept, limit_s=600)  # type: ignore[arg-type]
    assert done.status == 3
    assert done.text == "line 1\nline 2\nline 3\nover ✓\nstays\n"
    # The pieces come as the machine likes: that moment may pass within one.
    assert [plain(row) for row in done.during] in ([], ["line 1", "line 2", *["epoch 2 ━━━"] * 2])


def test_a_command_that_does_not_end_is_ended() -> None:
    with pytest.raises(TimeoutError):
        terminal.run("sleep 600", Path("/"), dict(os.environ), limit_s=0.5)


def test_the_picture_has_all_rows_and_fetches_nothing() -> None:
    rows = ["\x1b[32mgreen\x1b[0m and <plain>", "", "x" * 170, "~/trainstack/models"]
    text = terminal.picture("make up", rows, "up")
    page = ElementTree.fromstring(text)
    told = "".join(page.itertext()).replace("\xa0", " ")
    for words in ("$ make up", "green", "and <plain>", "~/trainstack/models"):
        assert words in told
    assert told.count("x") >= 170, "a long row is broken, and not cut"
    assert terminal.picture("make up", rows, "up") == text
    assert not re.search(r"url\((?!#)", text)
    assert (terminal.FONT in text, "Fira" in text) == (True, False)
    assert set(re.findall(r"https?://[\w./]+", text)) <= {
        "http://www.w3.org/2000/svg",
        "https://www.textualize.io",
    }


def test_names_of_the_machine_become_those_of_a_reader() -> None:
    words = {"/tmp/tests/trainstack": "~/trainstack", "tutorial-ab12cd": "trainstack-dev"}
    rows = ["model: /tmp/tests/trainstack/models", "cluster tutorial-ab12cd", "kept"]
    assert terminal.cleaned(rows, words) == ["model: ~/trainstack/models", "cluster trainstack-dev", "kept"]

"""The runbooks' form; that they do what they say is tested in tests/runbooks, on a cluster."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.runbooks import recording, stuck, transcript
from tests.runbooks.situations import GIVEN
from tests.runbooks.suites import FIRST, QUICK, SLOW, SMALL_DISK
from tests.runbooks.transcript import FOLDER, REHEARSED, SECTIONS, TranscriptError, parse, pattern

assert stuck  # it adds its situations
NAMES = transcript.all_names()
# What no kind cluster of ours can carry. Each word is what the block takes.
ELSEWHERE = {
    ("another-cluster", "ssh"),
    ("backends", "pulumi-cloud"),
    ("backends", "s3"),
    ("first-deployment", "snap"),
    ("tear-down", "machine"),
    ("upgrade-kubernetes", "snap"),
}


@pytest.mark.parametrize("name", NAMES)
def test_has_the_six_sections_in_their_order(name: str) -> None:
    assert transcript.load(name).sections == SECTIONS


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("section", ["Preconditions", "Steps", "Verify", "Go back"])
def test_each_section_that_is_run_has_commands(name: str, section: str) -> None:
    carried = transcript.load(name).carried
    assert [block for block in carried if block.section == section and block.commands]


@pytest.mark.parametrize("name", NAMES)
def test_steps_are_numbered(name: str) -> None:
    text = (FOLDER / f"{name}.md").read_text()
    for section in ("Steps", "Verify", "Go back"):
        inside = re.split(r"^## ", text, flags=re.MULTILINE)
        found = [part for part in inside if part.startswith(f"{section}\n")]
        assert found, f"{name}.md has no section {section}"
        assert re.search(r"^1\. ", found[0], re.MULTILINE), section


@pytest.mark.parametrize("name", NAMES)
def test_is_in_the_list_of_runbooks(name: str) -> None:
    assert f"]({name}.md)" in (FOLDER / "README.md").read_text()


def test_each_is_in_one_suite() -> None:
    assert sorted([FIRST, SMALL_DISK, *QUICK, *SLOW]) == NAMES, "tests/runbooks/suites.py"


def test_all_are_rehearsed() -> None:
    assert recording.read(REHEARSED).keys() == {*NAMES}, "make test-full ARGS=--record-rehearsal"


@pytest.mark.parametrize("name", NAMES)
def test_the_last_rehearsal_was_of_this_text(name: str) -> None:
    date, result, commands, _ = recording.read(REHEARSED)[name]
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", date)
    assert result == "passed", f"the last rehearsal of {name} failed"
    assert int(commands) == sum(len(block.commands) for block in transcript.load(name).carried), (
        "the runbook has changed since: make test-full ARGS=--record-rehearsal"
    )


def test_what_is_not_run_is_exactly_what_kind_cannot_carry() -> None:
    found = {
        (name, block.elsewhere) for name in NAMES for block in transcript.load(name).blocks if block.elsewhere
    }
    assert found == ELSEWHERE


def test_each_situation_is_used_and_known() -> None:
    used = {word for name in NAMES for block in transcript.load(name).blocks for word in block.given}
    assert used == GIVEN.keys()


@pytest.mark.parametrize(
    ("expected", "output", "fits"),
    [
        ((), "\n", True),
        ((), "something\n", False),
        (("a", "b"), "a\nb\n", True),
        (("a",), "a\nb\n", False),
        (("a … c",), "a b c\n", True),
        (("a … c",), "a b\nc\n", False),
        (("…", "z"), "x\ny\nz\n", True),
        (("…", "z"), "z\n", True),
        (("…", "z"), "z\nx\n", False),
        (("a.c",), "abc\n", False),
    ],
)
def test_an_ellipsis_stands_for_anything(expected: tuple[str, ...], output: str, fits: bool) -> None:
    assert (pattern(expected).fullmatch(output) is not None) == fits


def test_what_makes_room_leaves_each_run_what_it_goes_on_from(tmp_path: Path) -> None:
    """A finished run whose job is made anew only reports again; without its checkpoint it would train from nothing."""
    names = {"checkpoint.pt", "checkpoint.previous.pt", "metrics.jsonl", "report.html", "mnist_cnn.best.pt"}
    for run, more in (("mnist-1", {"mnist_cnn.pt"}), ("mnist-2", set())):
        (folder := tmp_path / "models" / "dev" / "runs" / run).mkdir(parents=True)
        for name in names | more:
            (folder / name).touch()
    commands = [command.text for block in transcript.load(SMALL_DISK).carried for command in block.commands]
    (removing,) = [command for command in commands if "rm " in command]
    subprocess.run(["bash", "-c", removing], cwd=tmp_path, check=True)
    left = {path.name: {file.name for file in path.iterdir()} for path in tmp_path.glob("models/dev/runs/*")}
    assert left == {"mnist-1": names - {"checkpoint.previous.pt"} | {"mnist_cnn.pt"}, "mnist-2": names}


def test_a_block_becomes_commands_with_output_and_status() -> None:
    text = "# T\n## Steps\n1. x\n\n   ```console given:g\n   $ a \\\n   > b\n   out\n   [3]\n   $ c\n   ```\n"
    (block,) = parse("t", text).blocks
    assert (block.section, block.given, block.elsewhere) == ("Steps", ("g",), None)
    first, second = block.commands
    assert (first.text, first.expected, first.status, first.line) == ("a \\\nb", ("out",), 3, 6)
    assert (second.text, second.expected, second.status) == ("c", (), 0)


def test_unknown_words_are_refused() -> None:
    with pytest.raises(TranscriptError, match="sometimes"):
        parse("t", "```console sometimes\n$ a\n```\n")

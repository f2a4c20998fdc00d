"""README's tables and its first change, as text; `tests/e2e/test_digits.py` replays the change on a cluster."""

from __future__ import annotations

import re
import shlex

import pytest

from infra.config.load import Sections
from infra.config.reference import models
from tests.runbooks.readme import README, first_change
from toolchain.__main__ import parser
from toolchain.paths import ROOT

TEXT = README.read_text()


def section(heading: str) -> str:
    """The text below a heading of any depth, to the next one of that depth or less."""
    found = re.search(rf"^(##+) {heading}\n(.*?)(?=^(?!\1#)## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert found, heading
    return found[2]


def rows(heading: str) -> list[list[str]]:
    """The cells of each row of the first table below a heading, without the table's head."""
    lines = [line for line in section(heading).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_each_starting_point_has_a_command_and_its_time() -> None:
    table = [row for row in rows("Two commands") if len(row) == 4]
    assert [row[0].split(",")[0].split(" with ")[0] for row in table] == [
        "only Debian",
        "Docker that runs and can pull",
        "a cluster",
        "a cluster",
        "macOS",
    ]
    for _, command, time, _ in table:
        assert parser().parse_args([shlex.split(command.strip("`"))[1]]).verb == "up"
        assert re.match(r"\d+ min$|not measured$|never run$", time), time


def test_the_stacks_of_the_starting_points_are_there() -> None:
    named = {name for row in rows("Two commands") for name in re.findall(r"STACK=(\w+)", row[1])}
    assert named == {"existing", "gpu"}
    assert [name for name in named if not (ROOT / "stacks" / f"Pulumi.{name}.yaml").exists()] == []


def test_every_section_of_a_stack_file_is_in_the_table() -> None:
    sections = {field.alias or name for name, field in Sections.model_fields.items()}
    assert {re.findall(r"`trainstack:(\w+)`", row[0])[0] for row in rows("Configuration")} == sections


@pytest.mark.parametrize("row", rows("Configuration"), ids=lambda row: row[0])
def test_the_keys_of_a_section_are_keys_of_its_model(row: list[str]) -> None:
    known = models()
    name = re.findall(r"`trainstack:(\w+)`", row[0])[0]
    keys = set(re.findall(r"`(\w+)`", row[2])) - {"job"}
    if name not in known:
        assert keys == set()
        return
    assert keys <= {field.alias or key for key, field in known[name].model_fields.items()}
    assert keys


def test_the_limits_come_last() -> None:
    headings = re.findall(r"^## (.+)$", TEXT, re.MULTILINE)
    assert headings[-1] == "Limits"
    for what in ("macOS", "arm64", "MicroK8s", "ci/github/test.yml", "nvidia.com/gpu"):
        assert what in section("Limits"), what


def test_the_first_change_takes_five_commands() -> None:
    commands = first_change()
    assert len(commands) == 5
    assert [command.text.split()[0] for command in commands] == ["git", "sed", "make", "pulumi", "git"]


def test_the_review_and_the_preview_are_shown() -> None:
    _, _, review, preview, commit = first_change()
    for command in (review, preview, commit):
        assert command.expected, f"`{command.text}` shows what it prints"

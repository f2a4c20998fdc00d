"""docs/plan.md against the command that it describes."""

from __future__ import annotations

import re
import shlex

import pytest

from toolchain.__main__ import parser
from toolchain.paths import ROOT, STACKS
from toolchain.planning import fabrics, model_inputs
from toolchain.planning.model import Fabric, Link
from toolchain.planning.plan_options import FIGURES, LINKS, given

PAGE = (ROOT / "docs" / "plan.md").read_text()
COMMANDS = re.findall(r"^make plan (.+?)(?: +#.*)?$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_can_be_typed(command: str) -> None:
    variables = dict(word.split("=", 1) for word in shlex.split(command))
    asked = parser().parse_args(
        ["plan", "--stack", variables["STACK"], *shlex.split(variables.get("ARGS", ""))]
    )
    assert (STACKS / f"Pulumi.{asked.stack}.yaml").exists()
    assert given(vars(asked))


def test_the_page_has_commands_and_every_figure() -> None:
    assert len(COMMANDS) >= 3
    assert [
        option.flag for option in FIGURES if f"`{option.flag}`" not in PAGE and option.flag != "--cores"
    ] == []
    assert "--cores" in PAGE


@pytest.mark.parametrize("name", LINKS)
def test_every_link_has_a_row(name: str) -> None:
    assert re.search(rf"^\| `{name}` \|", PAGE, re.MULTILINE)


def figures(link: Link) -> str:
    return f"{1e6 * link.latency_s:g} µs, {link.bandwidth / 1e9:g} GB/s"


@pytest.mark.parametrize("fabric", fabrics.ALL.values(), ids=lambda each: each.name)
def test_the_row_of_a_link_has_its_figures(fabric: Fabric) -> None:
    (row,) = re.findall(rf"^\| `{fabric.name}` \|(.*)$", PAGE, re.MULTILINE)
    assert figures(fabric.between) in row
    assert fabric.within is None or f"{fabric.per_node} GPUs: {figures(fabric.within)}" in row


def test_the_assumed_speeds_are_on_the_page() -> None:
    assert (
        f"{model_inputs.ASSUMED_THREAD:,.0f} images/s a\nthread or {model_inputs.ASSUMED_GPU:,.0f} a GPU"
        in PAGE
    )

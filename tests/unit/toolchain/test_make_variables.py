"""What is given on make's command line is taken, or refused; nothing is ignored in silence."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from toolchain import __main__ as program
from toolchain.__main__ import COMMON, KNOWN, TAKEN
from toolchain.options import MAKE_GIVEN, MAKE_GOALS
from toolchain.paths import ROOT

MISSPELT = [
    "STAK",
    "stack",
    "Stack",
    "STACKS",
    "DATADIR",
    "ADOPTED",
    "MIN_ACURACY",
    "ARG",
    "JOBS",
    "REPLACE_CLUSTR",
]


def refusal(goals: str, *given: str) -> str:
    return program.refusal({MAKE_GOALS: goals, MAKE_GIVEN: " ".join(given)}) or ""


@pytest.mark.parametrize("goal", TAKEN)
@pytest.mark.parametrize("name", KNOWN)
def test_a_target_takes_its_variables_and_refuses_the_others(goal: str, name: str) -> None:
    takes = name in (*TAKEN[goal], *COMMON)
    said = refusal(goal, name)
    assert bool(said) is not takes
    assert takes or said.startswith(f"`make {goal}` takes no {name}; it takes ")


@pytest.mark.parametrize("name", MISSPELT)
def test_what_looks_like_one_of_ours_is_refused(name: str) -> None:
    assert re.fullmatch(rf"`make up` takes no {name}; did you mean [A-Z_]+\?", refusal("", name))


def test_of_several_targets_one_has_to_take_it() -> None:
    assert refusal("down up", "DATA_DIR", "STACK") == ""
    assert "takes no RUN" in refusal("down up", "RUN")


@pytest.mark.parametrize("name", ["SHELL", "CC", "PREFIX", "DESTDIR", "VERSION", "V", "Q"])
def test_a_makefile_of_the_users_may_hand_its_own_on(name: str) -> None:
    assert refusal("up", name) == ""


def test_without_make_nothing_is_refused() -> None:
    assert program.refusal({}) is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["down", "STAK=test"], "`make down` takes no STAK; did you mean STACK?"),
        (["rerun", "RUN=x"], "`make rerun` takes no RUN; it takes"),
        (["drift", "ARGS=--nothing"], "unknown arguments: --nothing"),
        (["clean", "STACK=gpu"], "`make clean` takes no STACK; it takes"),
    ],
    ids=lambda each: each[0] if isinstance(each, list) else "",
)
def test_make_tells_what_it_was_given(words: list[str], said: str) -> None:
    unwanted = ("MAKE", "MFLAGS", *KNOWN)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    command = ["make", *words, f"PYTHON={sys.executable}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 2
    assert said in done.stderr


TYPED = re.compile(r"""\bmake (?:-s )?([a-z-]+)((?: [A-Z_]+=(?:"[^"]*"|'[^']*'|[^\s`]*))+)""")


def typed() -> Iterator[tuple[str, str, str]]:
    """Every `make <target> <NAME>=` of pages, CI files and messages: file, target, name."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        file = ROOT / name
        if (
            file.suffix not in (".md", ".py", ".yml", ".yaml", "")
            or not file.is_file()
            or "tests/unit" in name
        ):
            continue
        for goal, rest in TYPED.findall(file.read_text(errors="replace")):
            for variable in re.findall(r"(?:^| )([A-Z_]+)=", rest):
                yield name, goal, variable


def test_whatever_is_to_be_typed_is_taken() -> None:
    found = [each for each in typed() if each[1] in TAKEN]
    assert len(found) > 100
    assert [each for each in found if refusal(each[1], each[2])] == []

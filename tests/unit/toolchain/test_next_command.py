"""Every error ends with the next command to try: of every command, and of every kind of error."""

from __future__ import annotations

import argparse
import ast
import errno
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolchain import __main__ as program
from toolchain import interruption, next_command
from toolchain.commands import ALL, BY_NAME
from toolchain.machine import processes
from toolchain.options import Offer
from toolchain.paths import ROOT
from toolchain.steps import SetupError

KINDS: dict[str, Exception] = {
    "without a fix": SetupError("it is so"),
    "with a fix in words": SetupError("it is so", "free some space there"),
    "of the stack file": SetupError("stacks/Pulumi.dev.yaml: key = 5\n  allowed: 1 to 4\n  fix: write 4"),
    "refused": PermissionError(errno.EACCES, "Permission denied", "/some where"),
    "full": OSError(errno.ENOSPC, "No space left on device", "/x"),
    "a time-out": TimeoutError("it took long"),
    "a command": subprocess.CalledProcessError(2, ["go", "env"], stderr="no go here\n"),
    "not foreseen": KeyError("phase"),
}
COMMAND_LINES = {command.name: shlex.split(command.example) for command in ALL}
# Beginnings of a line that a user can type; the end of an error has one.
TYPED = re.compile(r"`[^`]+`|\b(?:make|sudo|git|docker) \S|\bpython3 -m toolchain \S|\btrainstack \S")


# Whose exit status says how a stack or a machine is; 2 is that nobody can tell.
ANSWERS = {command.name for command in ALL if "2 unknown" in command.does}


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(interruption, "catch", lambda hasten: None)
    monkeypatch.setattr(interruption, "ignore", lambda: None)
    monkeypatch.setattr(processes, "end_with_parent", lambda signal: None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture(params=["by make", "by hand"])
def face(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv("MAKELEVEL", raising=False)
    if request.param == "by make":
        monkeypatch.setenv("MAKELEVEL", "1")
    return str(request.param)


def ending(
    error: BaseException, words: list[str], patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    """The last line that the command says when it fails with `error`."""

    def fail(_asked: object) -> int:
        raise error

    patch.setattr(program, "dispatch", fail)
    stopped, failed = 130, 2 if words[0] in ANSWERS else 1
    assert program.main(words) == (stopped if isinstance(error, KeyboardInterrupt) else failed)
    return capsys.readouterr().err.splitlines()[-1].strip()


def read(line: str) -> dict[str, object]:
    """What the command of `line` asks for, typed as it stands there. make itself says what it would call."""
    words = shlex.split(line)
    if words[0] == "make":
        command = ["env", "--unset=MAKELEVEL", "make", "--dry-run", *words[1:]]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        words = shlex.split(done.stdout)
    assert words[:3] == ["python3", "-m", "toolchain"], line
    return vars(program.parser().parse_args(words[3:]))


@pytest.mark.parametrize("name", BY_NAME)
@pytest.mark.parametrize("kind", KINDS)
def test_every_error_of_every_command_ends_with_a_command(
    kind: str, name: str, face: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = ending(KINDS[kind], COMMAND_LINES[name], monkeypatch, capsys)
    assert TYPED.search(said), said
    label, _, line = said.partition(": ")
    if label == "next" and face == "by make":
        assert line.startswith("make ") or line.endswith("--help") or not BY_NAME[name].has_target


@pytest.mark.parametrize("name", BY_NAME)
def test_the_same_command_is_shown_with_what_was_asked_for(
    name: str, face: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = COMMAND_LINES[name]
    said = ending(KeyboardInterrupt(), words, monkeypatch, capsys)
    assert said.startswith("next: ")
    assert read(said.removeprefix("next: ")) == vars(program.parser().parse_args(words))


OF_A_STACK = [command.name for command in ALL if any(each.offer is Offer.STACKS for each in command.options)]


def told_of(name: str, wrong: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    """Exit status and last lines of the command with `wrong` for each of its stacks."""
    words = COMMAND_LINES[name]
    for option in (each for each in BY_NAME[name].options if each.offer is Offer.STACKS):
        at = words.index(option.flag) if option.flag in words else len(words)
        words = [*words[:at], option.flag, wrong, *words[at + 2 :]]
    status = program.main(words)
    said = capsys.readouterr()
    return status, (said.err or said.out).splitlines()


@pytest.mark.parametrize("name", OF_A_STACK)
def test_a_stack_that_there_is_not_is_refused_by_name(
    name: str, face: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same words would fail again: the next command has the stack that was meant, where one is like it."""
    for wrong, right in (("no-such-one", None), ("micro8ks", "microk8s")):
        status, lines = told_of(name, wrong, capsys)
        assert status == (2 if name in ANSWERS else 1)
        assert f"there is no stack '{wrong}'" in lines[0 if name == "status" else -3]
        assert any("use one of: " in line and "dev, " in line for line in lines)
        if name == "status":
            assert "docs/runbooks/first-deployment.md" in lines[-1]
        elif right is None:
            assert lines[-1] == f"  next: python3 -m toolchain {name} --help"
        else:
            asked = read(lines[-1].removeprefix("  next: "))
            assert right in asked.values()
            assert wrong not in asked.values()


ODD = [
    ["up", "--stack", "gpu", "--data-dir", "/a b/$c", "--replace-cluster", "yes"],
    ["runs", "--stack", "gpu", "--json"],
    ["test", "--suite", "full", "--", "-k", "a or b"],
    ["use", "--stack", "gpu", "--", "none"],
    ["compare", "--", "a", "b"],
]


@pytest.mark.parametrize("words", ODD, ids=" ".join)
def test_odd_values_are_quoted(
    words: list[str], face: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = ending(KeyboardInterrupt(), words, monkeypatch, capsys)
    assert read(said.removeprefix("next: ").replace("$c", "$$c" if face == "by make" else "$c")) == vars(
        program.parser().parse_args(words)
    )


WRONG = [
    ([], "--help"),
    (["nonsense"], "--help"),
    *(([command.name, "--nonsense"], f"{command.name} --help") for command in ALL),
    *(
        ([command.name, option.flag], f"{command.name} --help")
        for command in ALL
        for option in command.options
        if not (option.is_operand or option.is_switch or option.bare)
    ),
    *(
        ([command.name, option.flag, "nonsense"], f"{command.name} --help")
        for command in ALL
        for option in command.options
        if option.choices
    ),
]


@pytest.mark.parametrize(("words", "expected"), WRONG, ids=str)
def test_every_error_of_usage_ends_with_the_help(
    words: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        program.main(words)
    assert ended.value.code == 2
    said = capsys.readouterr().err.splitlines()
    assert said[-1] == f"  next: python3 -m toolchain {expected}"
    assert said[-2].startswith("error: ")


def fixes() -> Iterator[tuple[str, str]]:
    """Every fix that the sources write as a text, with its place; what is filled in is an x."""
    for file in sorted((ROOT / "toolchain").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "SetupError":
                fix = _text(node.args[1]) if len(node.args) > 1 else ""
                yield f"{file.relative_to(ROOT)}:{node.lineno}", fix


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(each) if isinstance(each, ast.Constant) else "x" for each in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def test_every_error_in_the_sources_has_a_command_or_gets_one() -> None:
    asked = argparse.Namespace(verb="up", stack="dev")
    found = list(fixes())
    assert len([fix for _, fix in found if fix]) > 40
    silent = [
        place
        for place, fix in found
        if not TYPED.search(f"{fix}{next_command.after(SetupError('it is so', fix), asked)}")
    ]
    assert silent == []

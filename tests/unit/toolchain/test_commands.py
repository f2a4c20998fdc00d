"""The command line: every command explains itself, make is its thin face, and bash completes it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from infra import agreed
from infra.audit import sbom
from toolchain import __main__ as program
from toolchain import commands, options
from toolchain.commands import ALL, BY_NAME, Command
from toolchain.images.cluster_images import PUBLISHED_NODE
from toolchain.operating import environment, setup
from toolchain.options import Option
from toolchain.paths import COMMAND, ROOT, STACKS
from toolchain.tools import venv

NAMES = list(BY_NAME)
TARGETS = [
    (command, goal)
    for command in ALL
    if command.has_target
    for goal in ([goal for _, goal in command.goals] or [command.name])
]
VARIABLES = [
    (command, option, variable)
    for command in ALL
    for option in command.options
    for variable in option.variable.split()
]


def asked(words: list[str]) -> dict[str, object]:
    return vars(program.parser().parse_args(words))


@pytest.mark.parametrize("name", NAMES)
def test_help_says_what_a_command_does_with_an_example_that_it_takes(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        program.main([name, "--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert BY_NAME[name].does[1:] in " ".join(said.split())
    (example,) = re.findall(r"^example: python3 -m toolchain (.+)$", said, re.MULTILINE)
    assert asked(shlex.split(example))["verb"] == name


def test_the_version_is_that_of_the_project(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        program.main(["--version"])
    assert ended.value.code == 0
    assert f'version = "{capsys.readouterr().out.split()[1]}"' in (ROOT / "pyproject.toml").read_text()


def test_no_child_of_a_command_gets_what_leads_docker_or_kind_astray(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    for name in (*agreed.ASTRAY, "KEPT"):
        monkeypatch.setenv(name, "x")

    def dispatch(_: object) -> int:
        seen.extend(os.environ)
        return 0

    monkeypatch.setattr(program, "dispatch", dispatch)
    assert program.main(["doctor"]) == 0
    assert "KEPT" in seen
    assert not {*agreed.ASTRAY} & {*seen}


def test_the_first_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        program.main(["--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert [command.name for command in ALL if f"{command.name} {command.does}" not in said] == []


def test_every_option_says_what_it_is() -> None:
    assert [option.flag for command in ALL for option in command.options if not option.help] == []


def made(goal: str, *variables: str) -> list[str]:
    """The words of the command that make would call."""
    command = ["make", "--dry-run", "--no-print-directory", goal, *variables]
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "STACK")}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, env=environment)
    return shlex.split(done.stdout)


def test_make_has_the_same_commands_and_no_others() -> None:
    (phony,) = re.findall(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert sorted(phony.split()) == sorted(goal for _, goal in TARGETS)


@pytest.mark.parametrize(("command", "goal"), TARGETS, ids=lambda each: each if isinstance(each, str) else "")
def test_a_target_of_make_calls_its_command(command: Command, goal: str) -> None:
    words = made(goal, "RUN=x", "A=x", "B=x")
    assert words[1:3] == ["-m", "toolchain"]
    found = asked(words[3:])
    assert found["verb"] == command.name
    if command.goals:
        assert (found[command.options[0].name], goal) in command.goals


@pytest.mark.parametrize(("command", "option", "variable"), VARIABLES)
def test_a_variable_of_make_is_handed_on(command: Command, option: Option, variable: str) -> None:
    value = "no" if option.choices else "a b"
    found = asked(made(command.name, f"{variable}={value}")[3:])[option.name]
    assert value in (found if isinstance(found, list) else [found])


def test_the_users_variables_for_python_do_not_reach_our_python() -> None:
    """Those that Python itself lists, except PYTHON_GIL and its like: other programs' settings look the same."""
    listed = subprocess.run([sys.executable, "--help-env"], capture_output=True, text=True, check=True).stdout
    names = {*re.findall(r"^(PYTHON[A-Z0-9]+)\b", listed, re.MULTILINE)}
    assert {"PYTHONPATH", "PYTHONHOME", "PYTHONSAFEPATH", "PYTHONDONTWRITEBYTECODE"} <= names
    environment = {**os.environ, **dict.fromkeys([*names, "PYTHON_KEPT"], "1")}
    command = ["make", "--silent", "--eval", "shown: ; @env", "shown"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, env=environment)
    shown = {line.partition("=")[0] for line in done.stdout.splitlines()}
    assert "PYTHON_KEPT" in shown
    assert not names & shown


def test_the_page_of_commands_lists_every_target() -> None:
    page = (ROOT / "docs" / "commands.md").read_text()
    assert [goal for _, goal in TARGETS if not re.search(rf"make (-s )?{re.escape(goal)}\b", page)] == []


def test_the_command_works_from_any_folder(tmp_path: Path) -> None:
    link = tmp_path / "trainstack"
    link.symlink_to(COMMAND)
    done = subprocess.run(
        [link, "runs", "--stack", "none-has-this-name"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: there is no stack 'none-has-this-name'")
    assert done.stderr.endswith("  next: trainstack runs --help\n")
    shown = subprocess.run([link, "up", "--help"], cwd=tmp_path, capture_output=True, text=True)
    assert "example: trainstack up" in shown.stdout


def completed(script: str, *words: str) -> set[str]:
    """What a real bash offers for the last of `words`."""
    ask = f"COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; _trainstack"
    shell = ["bash", "--noprofile", "--norc", "-euc", f'{script}\n{ask}\nprintf "%s\\n" "${{COMPREPLY[@]}}"']
    done = subprocess.run(shell, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return set(done.stdout.split())


SCRIPT = options.completion({command.name: command.options for command in ALL})


def test_bash_completes_the_commands() -> None:
    assert completed(SCRIPT, "trainstack", "") == set(NAMES)
    assert completed(SCRIPT, "trainstack", "mod") == {"models"}


@pytest.mark.parametrize("name", NAMES)
def test_bash_completes_the_options_of_a_command_and_their_values(name: str) -> None:
    options = BY_NAME[name].options
    flags = {option.flag for option in options if not option.is_operand}
    assert completed(SCRIPT, "trainstack", name, "--") == {*flags, "--help"}
    for option in options:
        if option.choices:
            offered = completed(SCRIPT, "trainstack", name, option.flag, "")
            assert offered == {choice for choice in option.choices if choice}
        elif option.flag == "--stack":
            stacks = {file.name.split(".")[1] for file in STACKS.glob("Pulumi.*.yaml")}
            assert completed(SCRIPT, "trainstack", name, "--stack", "") == stacks


def test_bash_completes_the_runs_that_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models = tmp_path / "the models"
    monkeypatch.setattr(options, "MODELS", models)
    monkeypatch.setattr(options, "STACKS", tmp_path / "no stacks")
    script = options.completion({command.name: command.options for command in ALL})
    assert completed(script, "trainstack", "use", "mnist") == set()
    assert completed(script, "trainstack", "up", "--stack", "") == set()
    for run in ("dev/runs/mnist-1", "gpu/runs/mnist-2", "gpu/runs/other-3"):
        (models / run).mkdir(parents=True)
    assert completed(script, "trainstack", "use", "mnist") == {"mnist-1", "mnist-2"}
    assert completed(script, "trainstack", "compare", "mnist-1", "oth") == {"other-3"}


def test_audit_hands_on_the_published_node_image_and_what_setup_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(setup, "LOCAL", tmp_path)
    monkeypatch.setattr(venv, "ensure", lambda: tmp_path)
    monkeypatch.setattr(environment, "load", lambda: {"TRAINSTACK_NODE_IMAGE": "trainstack/node:1"})
    monkeypatch.setattr(sbom, "write", lambda *given: asked.append(given))
    assert BY_NAME["audit"].run(program.parser().parse_args(["audit"])) == 0
    ((root, target, variables, image),) = asked
    assert (root, target, image) == (ROOT, str(commands.SBOM.relative_to(ROOT)), PUBLISHED_NODE)
    assert isinstance(variables, dict)
    assert variables["TRAINSTACK_NODE_IMAGE"] == "trainstack/node:1"

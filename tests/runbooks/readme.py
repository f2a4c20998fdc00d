"""README's transcript of a first change."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.e2e.project import Project
from tests.e2e.waiting import HANG_S
from tests.runbooks.shell import Shell
from tests.runbooks.transcript import Command, parse

README = Path(__file__).resolve().parents[2] / "README.md"
HEADING = "Five minutes to a first change"


def first_change() -> list[Command]:
    """The commands of that section, in order, with the output that README shows."""
    section = re.search(rf"^## {HEADING}\n.*?(?=^## |\Z)", README.read_text(), re.MULTILINE | re.DOTALL)
    assert section, f"README.md has no section {HEADING!r}"
    return [command for block in parse("README", section[0]).blocks for command in block.commands]


def replay(project: Project) -> None:
    """Type the commands in the shell of `make env`; leaves branch and files as they were last committed."""
    for name, value in (("user.name", "test"), ("user.email", "test@localhost")):
        git(project, "config", name, value)
    project.commit("before the change")
    before = git(project, "branch", "--show-current").strip()
    shell = Shell(project.root, project.environment())
    try:
        for command in first_change():
            status, said = shell.run(command.text, HANG_S)
            assert command.accepts(status, said), f"README.md: $ {command.text} [{status}]\n{said}"
        assert project.changed_files() == "", "the branch holds the whole change"
        assert "+      digitsEpochs: 24" in git(project, "diff", before, "--", "stacks/Pulumi.dev.yaml")
    finally:
        shell.close()
        git(project, "switch", "--quiet", "--force", before)
        git(project, "reset", "--quiet", "--hard", "HEAD~1")


def git(project: Project, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=project.root, capture_output=True, text=True, check=True)
    return done.stdout

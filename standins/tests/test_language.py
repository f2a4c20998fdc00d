"""The language host, through the real CLI: what programs get, how they fail, how they are ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from standins.tests.project import CommandError, Project

pytestmark = pytest.mark.apiserver

PROGRAM = """
import sys
import pulumi
from pulumi.dynamic import CreateResult, Resource, ResourceProvider

class Doubling(ResourceProvider):
    def create(self, props):
        return CreateResult("made", {**props, "doubled": props["text"] * 2})

class Doubled(Resource):
    doubled: pulumi.Output[str]
    def __init__(self, name, text):
        super().__init__(Doubling(), name, {"text": text, "doubled": None})

config = pulumi.Config()
print("printed by the program")
print("dry run:", pulumi.runtime.is_dry_run())
print("at once:", pulumi.runtime.settings.SETTINGS.parallel)
print("complained by the program", file=sys.stderr)
pulumi.log.warn("logged by the program")
pulumi.export("plain", config.get("plain"))
pulumi.export("secret", config.get_secret("hidden"))
pulumi.export("stack", pulumi.get_stack())
pulumi.export("project", pulumi.get_project())
pulumi.export("organization", pulumi.get_organization())
pulumi.export("root", pulumi.runtime.get_root_directory())
pulumi.export("preview", pulumi.runtime.is_dry_run())
pulumi.export("doubled", Doubled("dynamic", "ab").doubled)
"""


def test_a_program_gets_its_context_and_dynamic_providers(project: Project) -> None:
    project.write(PROGRAM)
    project.configure("plain", "text")
    project.pulumi("config", "set", "--secret", "hidden", "hunter2")
    assert "dry run: True" in project.pulumi("preview")
    output = project.up("--parallel", "3")
    for line in (
        "printed by the program",
        "complained by the program",
        "warning: logged by the program",
        "dry run: False",
        "at once: 3",
    ):
        assert line in output
    outputs = json.loads(project.pulumi("stack", "output", "--json"))
    assert outputs == {
        "plain": "text",
        "secret": "[secret]",
        "stack": "g",
        "project": "golden",
        "organization": "organization",
        "root": str(project.folder),
        "preview": False,
        "doubled": "abab",
    }
    assert "hunter2" not in project.pulumi("stack", "export")
    about = project.pulumi("about")
    assert "This project is written in python" in about
    assert "toolchain='pip'" in about
    assert "kubernetes" in about
    project.destroy()


def test_an_exception_ends_in_the_users_own_line(project: Project) -> None:
    project.write("def deep():\n    raise ValueError('boom')\n\ndeep()\n")
    with pytest.raises(CommandError) as failed:
        project.up()
    output = failed.value.output
    assert "Program failed with an unhandled exception" in output
    assert "ValueError: boom" in output
    assert "line 2, in deep" in output
    assert "runpy" not in output, "our frames are of no use to the author"
    assert "executor.py" not in output


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import sys; sys.exit(3)", "exit code: 3"),
        ("def f(:\n", "SyntaxError"),
        ("import nonexistent_module", "No module named 'nonexistent_module'"),
    ],
)
def test_other_failures_are_said_too(project: Project, program: str, said: str) -> None:
    project.write(program)
    with pytest.raises(CommandError, match=said):
        project.up()


def children_of(parent: int) -> set[int]:
    """The processes below another, at any depth."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    found = {parent}
    while True:
        more = {child for child, above in parents.items() if above in found} - found
        if not more:
            return found - {parent}
        found |= more


def test_an_interrupted_command_leaves_no_process(project: Project) -> None:
    marker = project.folder / "running"
    project.write(f"import time, pathlib\npathlib.Path({str(marker)!r}).touch()\ntime.sleep(600)\n")
    running = subprocess.Popen(
        ["pulumi", "up", "--yes", "--skip-preview", "--non-interactive"],
        cwd=project.folder,
        env=project.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        until = time.monotonic() + 600
        while not marker.exists() and time.monotonic() < until:
            time.sleep(0.1)
        below = children_of(running.pid)
        assert below
        running.send_signal(signal.SIGINT)
        time.sleep(1)
        running.send_signal(signal.SIGINT)
        running.wait(timeout=300)
        until = time.monotonic() + 120
        while any(Path(f"/proc/{pid}").exists() for pid in below) and time.monotonic() < until:
            time.sleep(0.2)
        left = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in below if Path(f"/proc/{pid}").exists()]
        assert not left
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)


def test_what_a_program_leaves_for_its_end_is_done(project: Project) -> None:
    left = project.folder / "left"
    project.write(
        "import atexit, pathlib, threading, time\n"
        f"atexit.register(lambda: pathlib.Path({str(left)!r}).write_text('by a handler'))\n"
        f"threading.Thread(target=lambda: (time.sleep(1), open({str(left) + '-thread'!r}, 'w'))).start()\n"
    )
    project.up()
    assert left.read_text() == "by a handler"
    assert (project.folder / "left-thread").exists(), "threads are waited for"

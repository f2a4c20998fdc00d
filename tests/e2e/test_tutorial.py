"""docs/tutorial.md, typed as it stands on a terminal: the last word on the shared clone, which it takes down.

`make pictures` types it in a clone of its own and takes the pictures anew.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import chromium
from tests.e2e import clones, processes
from tests.e2e.project import Project, clean_environment
from tests.e2e.waiting import HANG_S
from tests.pictures import terminal, tutorial
from tests.pictures.terminal import Result
from tests.pictures.tutorial import LIVE, Step
from toolchain.machine.engine import Engine

pytestmark = pytest.mark.slow(
    reason="two trainings; the runbooks and README type most of its commands in `make test`"
)

ENVIRONMENT = 'eval "$(make -s env)"'


@pytest.fixture(scope="module")
def beginner(engine: Engine, request: pytest.FixtureRequest) -> Iterator[Project]:
    """A stack on digits whose job has yet to train: for the pictures a clone that was never up."""
    if request.config.getoption("--record-tutorial"):
        with clones.temporary("tutorial", has_layers=False) as clone:
            yield clone
        return
    shared: Project = request.getfixturevalue("project")
    shared.take_data_away()
    shared.stand_up()
    committed = shared.stack_file.read_text()
    shared.stack_file.write_text(committed.replace("training:\n", "training:\n      seed: 2\n"))
    yield shared


def test_the_tutorial_does_what_it_shows(
    beginner: Project, engine: Engine, request: pytest.FixtureRequest
) -> None:
    words = {str(beginner.root): "~/trainstack", beginner.cluster: "trainstack-dev"}
    environment, taken = clean_environment(), dict[str, str]()
    for step in tutorial.steps():
        if step.command.text == ENVIRONMENT:
            environment = beginner.environment()
            continue
        done = terminal.run(step.command.text, beginner.root, environment, tutorial.trains, limit_s=HANG_S)
        rows = terminal.cleaned(done.rows, words)
        said = "".join(f"{terminal.plain(row)}\n" for row in rows)
        assert step.command.accepts(done.status, said), f"$ {step.command.text}\n{said}"
        taken |= {name: pictured(step, done, name, words) for name in step.pictures}
    if request.config.getoption("--record-tutorial"):
        tutorial.FOLDER.mkdir(exist_ok=True)
        for name, picture in taken.items():
            tutorial.file(name).write_text(picture)
        # The page shows it before the training is changed.
        report = min(beginner.models.glob("runs/*/report.html"), key=lambda file: file.stat().st_mtime)
        tutorial.REPORT.write_bytes(chromium.look(engine, report, chromium.DESK).top(chromium.DESK))


def test_its_last_command_may_be_typed_again_and_leaves_the_model_and_nothing_else(beginner: Project) -> None:
    environment = beginner.environment()
    again = beginner.make("down")
    assert again.returncode == 0, again.stdout

    assert (beginner.models / "mnist_cnn.pt").is_file()
    mounts = Path("/proc/mounts").read_text()
    assert str(beginner.root) not in mounts
    assert not processes.working_in(beginner.root)
    left = subprocess.run(
        ["docker", "ps", "--all", "--quiet", "--filter", f"name={beginner.cluster}"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert left.stdout == ""


def pictured(step: Step, done: Result, name: str, words: dict[str, str]) -> str:
    """The picture of that name: of the command's end, or of a moment while it ran."""
    rows = done.during if name.endswith(LIVE) else done.rows
    assert rows, f"nothing stood on the terminal for {name}"
    return terminal.picture(step.command.text, terminal.cleaned(rows, words), name)

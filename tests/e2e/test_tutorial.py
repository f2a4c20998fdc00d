"""docs/tutorial.md, typed as it stands on a terminal; its pictures are taken anew by `make pictures`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser import chromium
from tests.e2e import clones
from tests.e2e.project import Project, clean_environment
from tests.e2e.waiting import HANG_S
from tests.pictures import terminal, tutorial
from tests.pictures.terminal import Result
from tests.pictures.tutorial import LIVE, Step
from toolchain.machine.engine import Engine

ENVIRONMENT = 'eval "$(make -s env)"'


@pytest.fixture
def beginner(engine: Engine) -> Iterator[Project]:
    """A clone that was never up, without data of its own."""
    with clones.temporary("tutorial", has_layers=False) as clone:
        yield clone


@pytest.mark.slow(reason="a cluster of its own, and two trainings")
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


def pictured(step: Step, done: Result, name: str, words: dict[str, str]) -> str:
    """The picture of that name: of the command's end, or of a moment while it ran."""
    rows = done.during if name.endswith(LIVE) else done.rows
    assert rows, f"nothing stood on the terminal for {name}"
    return terminal.picture(step.command.text, terminal.cleaned(rows, words), name)

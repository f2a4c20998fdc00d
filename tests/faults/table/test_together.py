"""Several runs of `make up` at once: of one stack, of two stacks of a clone, of two clones."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.e2e import clones
from tests.e2e.project import Project, closing_lines
from tests.e2e.waiting import HANG_S
from tests.faults.table import background, other_user, training
from tests.faults.table.trial import Trial
from toolchain.machine.engine import Engine

FLOOR = 0.9
COLD_S = 3 * HANG_S
CACHES = {"XDG_CACHE_HOME": "cache", "GOCACHE": "go-build", "GOMODCACHE": "go-modules"}


@pytest.mark.slow(reason="two runs of make up")
@pytest.mark.row("two-of-one-stack")
def test_two_of_one_stack_take_turns(
    project: Project, undisturbed_short: tuple[float, float], trial: Trial
) -> None:
    with (
        training.started(project, training.SHORT) as run,
        background.make(project, "up", name="second") as second,
    ):
        trial.strike("")
        assert run.result() == undisturbed_short
        assert second.ended() == 0, second.output
        trial.recovered()
        assert " unchanged" in run.make.output + second.output


@pytest.mark.slow(reason="two clusters")
@pytest.mark.row("two-stacks")
def test_two_stacks_of_a_clone_take_turns(engine: Engine, trial: Trial) -> None:
    with clones.temporary("stacks", has_layers=False) as first:
        name = f"{first.cluster}-b"
        second = Project(first.root, name, "other")
        second.stack_file.write_text(first.stack_file.read_text())
        second.configure({"trainstack:cluster": {"name": name}})
        with clones.standing(second):
            both_come_up(trial, first, second)


@pytest.mark.slow(reason="two clusters")
@pytest.mark.row("two-clones")
def test_two_clones_come_up_side_by_side(engine: Engine, trial: Trial) -> None:
    with (
        clones.temporary("first", has_layers=False) as first,
        clones.temporary("second", has_layers=False) as second,
    ):
        both_come_up(trial, first, second)


@pytest.mark.slow(reason="two clusters, and every tool is built anew")
@pytest.mark.row("two-clones-cold")
def test_two_clones_with_cold_caches_build_each_tool_once(
    engine: Engine, trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    with clones.owned("cold") as folder:
        for name, place in CACHES.items():
            monkeypatch.setenv(name, str(folder / place))
        with (
            clones.temporary("first", has_layers=False) as first,
            clones.temporary("second", has_layers=False) as second,
        ):
            both_come_up(trial, first, second, seconds=COLD_S)


@pytest.mark.slow(reason="two clusters")
@pytest.mark.row("two-users")
def test_two_users_of_one_machine_are_not_in_each_others_way(engine: Engine, trial: Trial) -> None:
    with clones.temporary("root", has_layers=False) as first, other_user.standing("user") as second:
        both_come_up(trial, first, second)
        assert (second.root / ".trainstack").owner() == other_user.USER
        down = first.make("down")
        assert down.returncode == 0, down.stdout
        assert " unchanged" in second.up()["output"], (
            "root's make down leaves a user's cluster and the engine"
        )
        down = second.make("down")
        assert down.returncode == 0, down.stdout


def both_come_up(trial: Trial, first: Project, second: Project, seconds: float = HANG_S) -> None:
    with ExitStack() as running:
        trial.strike("")
        made = [
            running.enter_context(background.make(each, "up", name=f"up-{each.stack}"))
            for each in (first, second)
        ]
        for each in made:
            assert each.ended(seconds) == 0, each.output
            assert float(closing_lines(each.output)["accuracy"]) > FLOOR
        trial.recovered()
    assert first.models / "mnist_cnn.pt" != second.models / "mnist_cnn.pt"
    for project in (first, second):
        assert (project.models / "mnist_cnn.pt").is_file()

"""A protected stack is updated by a plan that is shown first: real plans, on an API server without nodes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import pytest

from tests.matrix.entries import JOB
from tests.matrix.judging import job_specs
from tests.matrix.project import AppliedProject
from tests.unit.toolchain.conftest import git
from toolchain.operating import pulumi_cli, state, up, update
from toolchain.steps import SetupError

THREE = {"job.training": {"epochs": 3}}
FOUR = {"job.training": {"epochs": 4}}
Printed = list[str]


@pytest.fixture
def printed(project: AppliedProject, monkeypatch: pytest.MonkeyPatch) -> Printed:
    """What Pulumi has printed, one text for each run of it."""
    return watched(project, monkeypatch, lambda: None)


def watched(
    project: AppliedProject, monkeypatch: pytest.MonkeyPatch, after_preview: Callable[[], None]
) -> Printed:
    found: Printed = []

    def stream(_: Mapping[str, str], *arguments: str) -> int:
        done = project.pulumi(*arguments)
        found.append(done.stdout)
        if arguments[0] == "preview":
            after_preview()
        return done.returncode

    monkeypatch.setattr(pulumi_cli, "stream", stream)
    return found


def updated(project: AppliedProject, ensure_reviewed: Callable[[], None] = lambda: None) -> int:
    return update.by_plan({}, project.stack, ("--refresh",), up._QUIET, ensure_reviewed)


def test_what_is_shown_is_done(project: AppliedProject, printed: Printed) -> None:
    """A dry run of a creation makes up a uid, which is no part of what is planned."""
    changed = {"job": None, "jobs": [{**JOB, "training": {"epochs": 3}}, {**JOB, "name": "more"}]}
    project.configured(**changed)
    assert updated(project) == 0, printed
    shown, _ = printed
    assert '+     [1]: "3"' in shown
    assert job_specs(project.settled()) == project.job_specs(**changed)
    assert updated(project) == 0, "a plan of nothing is kept, too"


def test_a_stack_is_made_from_nothing_by_a_plan(project: AppliedProject, printed: Printed) -> None:
    project.destroy()
    project.configured()
    assert updated(project) == 0, printed
    assert job_specs(project.settled()) == project.job_specs()


def test_what_was_not_shown_is_not_done(project: AppliedProject, monkeypatch: pytest.MonkeyPatch) -> None:
    project.stand()
    before = project.settled()
    project.configured(**THREE)
    printed = watched(project, monkeypatch, lambda: project.configured(**FOUR))
    assert updated(project) != 0
    assert "violates plan" in printed[-1]
    assert job_specs(project.settled()) == job_specs(before)


def test_a_plan_of_what_nobody_has_reviewed_is_not_applied(project: AppliedProject, printed: Printed) -> None:
    def refuse() -> None:
        raise SetupError("these files have changes without a commit")

    project.stand()
    before = project.settled()
    project.configured(**THREE)
    with pytest.raises(SetupError, match="changes without a commit"):
        updated(project, refuse)
    assert len(printed) == 1
    assert job_specs(project.settled()) == job_specs(before)


def test_pulumi_remembers_the_commit_that_it_applied(
    project: AppliedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words in (["init", "--quiet"], ["add", "Pulumi.yaml"], ["commit", "--quiet", "--message", "applied"]):
        git(project.folder, *words)
    project.up()
    asked = ("stack", "history", "--json", "--page-size", "100", "--stack", project.stack)
    done = json.loads(project.pulumi(*asked).stdout)
    applied = git(project.folder, "rev-parse", "HEAD").strip()
    monkeypatch.setattr(pulumi_cli, "history", lambda variables, stack: done)
    monkeypatch.setattr(update, "ROOT", project.folder)
    update.ensure_contained({}, project.stack)
    git(project.folder, "checkout", "--quiet", "--orphan", "another")
    git(project.folder, "commit", "--quiet", "--message", "another")
    with pytest.raises(SetupError, match=f"from commit {applied[:12]}, which is not part of"):
        update.ensure_contained({}, project.stack)


def test_the_state_tells_the_outputs_that_pulumi_tells(project: AppliedProject) -> None:
    project.stand()
    assert state.outputs(project.deployment()) == project.outputs() != {}

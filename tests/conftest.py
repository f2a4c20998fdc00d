"""What the suites on a real engine share: one clone with one cluster, in one order, beside what needs neither."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests import order
from tests.e2e import clones, layers
from tests.e2e.project import ROOT, Project
from tests.faults.table.trial import PROPERTY, Trial
from tests.trainer.inside import cases
from toolchain.machine import engine as engines
from toolchain.machine.engine import Engine

pytest.register_assert_rewrite("tests.matrix")  # its helpers assert, too
collect_ignore = ["trainer/inside"]  # tests/trainer/test_image.py runs them in the image
NICENESS = 10
"""All containers together, a cluster's nodes among them, weigh as much as one process of niceness 0."""
MNIST = Path(os.environ.get("TRAINSTACK_MNIST", ROOT / ".." / "shared" / "data" / "mnist"))


def pytest_addoption(parser: pytest.Parser) -> None:
    # Here, not beside the runbooks' tests: `make test-full` hands its arguments to the other suites, too.
    text = "write date and result of each runbook into docs/runbooks/rehearsed.md"
    parser.addoption("--record-rehearsal", action="store_true", help=text)
    pictures = "write the pictures of docs/tutorial.md into docs/tutorial"
    parser.addoption("--record-tutorial", action="store_true", help=pictures)
    rounds = "benchmarks with all rounds and sizes of docs/benchmarks.md, into whose folder data and plots go"
    parser.addoption("--thorough", action="store_true", help=rounds)
    before = "also measure this commit, in turns: make bench ARGS='-k loop --before COMMIT'"
    parser.addoption("--before", default="", help=before)
    of = "which cases of the tests that are marked `sampled`: `make test` runs the sample, the other suites all"
    parser.addoption("--cases", choices=cases.CHOICES, default="all", help=of)
    cold = "give the machine of the starting point `a cluster` empty Go caches, for docs/internals/measurements.csv"
    parser.addoption("--empty-go-caches", action="store_true", help=cold)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    kept = cases.chosen(items, config.getoption("cases"))
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept
    for item in items:
        if order.group(item.path):
            item.add_marker(pytest.mark.e2e)
        # Whoever leaves a test out of `make test` says why.
        unreasoned = [mark for mark in item.iter_markers("slow") if not mark.kwargs.get("reason")]
        assert not unreasoned, f"{item.nodeid}: say pytest.mark.slow(reason=...)"
    items.sort(key=lambda item: order.place(item.path))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """A unit of `order.units` is kept in one process. xdist's own marker for groups does nothing under pytest 9.2."""
    return GroupScheduling(config, log)


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out what `order.units` keeps together, in the order of `order.place`."""

    @cached_property
    def units(self) -> dict[str, str]:
        """By the ids of the tests; all processes have collected the same ones."""
        return order.units(next(iter(self.registered_collections.values())))

    def schedule(self) -> None:
        self.config.option.loadscopereorder = (
            False  # by the number of their tests, which says little of their time
        )
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        return self.units[nodeid]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let the processes beside the longest chain of tests make way for it: the run ends with that chain."""
    beside = "PYTEST_XDIST_WORKER" in os.environ and order.group(item.path) != order.CHAIN
    if beside and os.getpriority(os.PRIO_PROCESS, 0) < NICENESS:
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the state of the clusters that a failed test has seen, whatever fixtures it had them from."""
    report = yield
    for project in clones.STANDING if report.failed else []:
        report.sections.append((f"cluster {project.cluster}", project.dump()))
    return report


def pytest_report_to_serializable(report: pytest.TestReport) -> None:
    """The times of `make up` travel from the process that ran it to the one that prints the summary."""
    if isinstance(report, pytest.TestReport) and report.when == "teardown":
        report.user_properties += [("make up", line) for line in Project.phase_times]
        Project.phase_times.clear()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [report for each in terminalreporter.stats.values() for report in each]
    told = [
        value
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == "make up"
    ]
    if told:
        terminalreporter.section("times of make up")
        terminalreporter.write_line("\n".join(told))


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """The container engine, kept running: else a `make down` would stop it under another test's hands."""
    answering = engines.ensure()
    clones.sweep(answering)
    image = os.environ.get("TRAINSTACK_INIT_IMAGE", "busybox:1.37")
    with clones.owned("engine") as folder:
        label = f"{clones.PROJECT_LABEL}={folder}"
        keep = ("--network", "none", "--label", label, "--entrypoint", "sleep", image, "infinity")
        answering.output("run", "--detach", "--rm", "--name", folder.name, *keep)
        with layers.kept(answering, folder, image):
            yield answering


@pytest.fixture(scope="module", autouse=True)
def engine_answers(request: pytest.FixtureRequest) -> None:
    if order.group(request.path):
        request.getfixturevalue("engine")


@pytest.fixture(scope="session")
def mnist() -> Path | None:
    """The folder of the real MNIST; None where there is none."""
    return MNIST.resolve() if (MNIST / "train-images-idx3-ubyte.gz").exists() else None


class GroupClones:
    """The clone that the tests of a group share. The next group of the process gets another.

    Parameters:
        data: `DATA_DIR=…`, where a real data set is at hand, for the group that begins with it; others train on the
            image's digits.
    """

    def __init__(self, data: tuple[str, ...]) -> None:
        self.data = {order.WITH_DATA: data}
        self.group = ""
        self.clone: Project | None = None
        self.standing = ExitStack()

    def of(self, group: str) -> Project:
        """The group's clone; its stack `dev` is not up when the first of the group begins."""
        if self.clone is None or group != self.group:
            self.standing.close()
            made = clones.temporary(group or "test", has_layers=False)
            self.group, self.clone = group, self.standing.enter_context(made)
            self.clone.data = self.data.get(group, ())
        return self.clone


@pytest.fixture(scope="session")
def group_clones(engine: Engine, mnist: Path | None) -> Iterator[GroupClones]:
    made = GroupClones((f"DATA_DIR={mnist}",) if mnist else ())
    with made.standing:
        yield made


@pytest.fixture(scope="module")
def project(request: pytest.FixtureRequest, group_clones: GroupClones) -> Project:
    """The clone that the tests of this one's group share."""
    return group_clones.of(order.group(request.path))


@pytest.fixture(scope="module")
def up(project: Project) -> dict[str, str]:
    """The closing lines of a `make up` of the stack as it is committed; made anew where it does not stand so."""
    return project.stand_up()


@pytest.fixture
def trial(request: pytest.FixtureRequest) -> Iterator[Trial]:
    """Takes down which faults this test has done; `make reliability` records them."""
    made = Trial()
    yield made
    request.node.user_properties += [(PROPERTY, dataclasses.asdict(fault)) for fault in made.faults]

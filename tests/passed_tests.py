"""Plugin of long suites: writes down which tests have passed, and leaves them out when the run is taken up again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--passed", type=Path, help="file with the ids of the tests that have passed")


def pytest_configure(config: pytest.Config) -> None:
    file: Path = config.getoption("--passed")
    if hasattr(config, "workerinput"):
        known = config.workerinput["passed"]
    else:
        known = file.read_text().splitlines() if file.exists() else []
        config.pluginmanager.register(Writer(file, known), "passed-tests-writer")
    config.pluginmanager.register(Reader(set(known)), "passed-tests-reader")


class Reader:
    """Leaves out the tests of `known`, the same ones in every process."""

    def __init__(self, known: set[str]) -> None:
        self.known = known

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        taken = [item for item in items if item.nodeid in self.known]
        if taken:
            config.hook.pytest_deselected(items=taken)
            items[:] = [item for item in items if item.nodeid not in self.known]


class Writer:
    """Adds each test that passes, in its set-up, itself and in its clean-up, to `file`."""

    def __init__(self, file: Path, known: list[str]) -> None:
        self.file = file
        self.known = known
        self.failed: set[str] = set()

    def pytest_report_header(self) -> str:
        return f"taken up: {len(self.known)} tests have passed in the interrupted run" if self.known else ""

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["passed"] = self.known

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.failed.add(report.nodeid)
        elif report.when == "teardown" and report.nodeid not in self.failed:
            with self.file.open("a") as file:
                file.write(f"{report.nodeid}\n")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.known and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK

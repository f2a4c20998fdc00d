"""Plugin of `make test`: a skipped test fails the run unless it is listed here, and a failure is shown at once."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

NO_MNIST = (
    "the real MNIST is neither in a clone nor to be had from a package registry; digits cover the same code"
)

# Beginning of the test's id -> why nothing is lost without it.
ALLOWED = {
    "tests/trainer/test_image.py::test_baked_data_is_what_auto_finds": NO_MNIST,
}


@dataclass(eq=False)  # pluggy keeps plugins in sets
class Skips:
    """What was skipped in this run."""

    listed: list[str] = field(default_factory=list)
    unlisted: list[str] = field(default_factory=list)

    def add(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if not report.skipped or hasattr(report, "wasxfail"):
            return
        said = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        reason = next((why for test, why in ALLOWED.items() if report.nodeid.startswith(test)), None)
        if reason is None:
            self.unlisted.append(f"{report.nodeid}: {said}")
        else:
            self.listed.append(f"{report.nodeid}: {said}. Allowed: {reason}")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.add(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.add(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.unlisted and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for title, lines in (("allowed skips", self.listed), ("skips that fail the run", self.unlisted)):
            if lines:
                terminalreporter.section(title)
                terminalreporter.write_line("\n".join(lines))


class Early:
    """Shows the report of a failed test when it fails, not only at the end of a long run."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            terminal.ensure_newline()
            terminal.write_sep("_", f"{report.nodeid} ({report.when})", red=True)
            terminal.write_line(report.longreprtext)
            for title, text in report.sections:
                if title.startswith("cluster "):
                    terminal.write_line(f"--- {title}\n{text}")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # the process that decides, not one of xdist's
        config.pluginmanager.register(Skips(), "unlisted-skips")
        config.pluginmanager.register(Early(config), "early-failures")

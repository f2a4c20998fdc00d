"""Plugin of `make reliability`: records each try, leaves out tests that have survived, writes the page.

A try that was not survived stays in the count. Once its cause is mended, `--anew ROW` measures the whole row again.
"""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.faults.table import page, records
from tests.faults.table.records import Record
from tests.faults.table.rows import ROWS
from tests.faults.table.trial import PROPERTY

ROOT = Path(__file__).resolve().parents[3]


def pytest_addoption(parser: pytest.Parser) -> None:
    default = ROOT / "docs" / "reliability.jsonl"
    parser.addoption(
        "--records", type=Path, default=default, help="file of the tries; the page lies beside it"
    )
    parser.addoption(
        "--anew", action="append", default=[], metavar="ROW", help="forget this row's tries first"
    )


def pytest_configure(config: pytest.Config) -> None:
    unknown = set(config.getoption("--anew")) - ROWS.keys()
    if unknown:
        raise pytest.UsageError(f"no such row: {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    config.pluginmanager.register(Table(config), "reliability")


class Table:
    """The tries of this session. A test without the marker `row` does not belong to it."""

    def __init__(self, config: pytest.Config) -> None:
        self.file: Path = config.getoption("--records")
        self.anew: list[str] = config.getoption("--anew")
        self.rows: dict[str, str] = {}
        self.failed: set[str] = set()

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        if self.anew:
            records.keep(self.file, lambda record: record.row not in self.anew)
        latest = {each.test: each.survived for each in records.read(self.file)}
        self.rows = {item.nodeid: row_of(item) for item in items if row_of(item)}
        taken = [item for item in items if latest.get(item.nodeid) or item.nodeid not in self.rows]
        config.hook.pytest_deselected(items=taken)
        items[:] = [item for item in items if item not in taken]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)
        if report.when != "teardown":
            return
        faults: list[Any] = [value for name, value in report.user_properties if name == PROPERTY]
        for number, fault in enumerate(faults, start=1):
            is_last = number == len(faults)
            survived = fault["seconds"] is not None and not (is_last and report.nodeid in self.failed)
            self._add(report.nodeid, fault["phase"], survived, fault["seconds"])

    def _add(self, test: str, phase: str, survived: bool, seconds: float | None) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%d")
        record = Record(self.rows[test], test, phase, survived, seconds, now, commit(), processor())
        records.add(self.file, record)
        page.write(self.file)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        page.write(self.file)
        if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK  # every row has been tried

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("the table of faults")
        terminalreporter.write_line(f"{page.summary(records.read(self.file))} See {page.place(self.file)}")


def row_of(item: pytest.Item) -> str:
    """The row that `item` makes tries of; empty where it is none of the table's."""
    marker = item.get_closest_marker("row")
    return str(marker.args[0]) if marker else ""


def commit() -> str:
    """Short hash of the commit that is tried."""
    words = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def processor() -> str:
    """Model of the processor, and how many cores this process may use."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown"
    )
    return f"{model}, {len(os.sched_getaffinity(0))} cores"

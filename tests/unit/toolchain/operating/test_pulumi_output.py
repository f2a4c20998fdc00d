"""Pulumi's output: in its log file, and on the screen what the reader has to know."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests.matrix.kind_project import UNCHANGED
from tests.unit.conftest import Fake
from toolchain.operating import pulumi_cli, pulumi_output

STANDIN = """
previous=
for word; do
  test "$previous" != --event-log || events=$word
  previous=$word
done
test -z "$events" || cat "$EVENTS" >> "$events"
cat "$OUTPUT"
exit "$STATUS"
"""
OUTPUT = """Updating (dev):
 +  kubernetes:core/v1:Namespace Namespace/kubeflow creating (0s)
Diagnostics:
    it is so

Outputs:
    jobName: "pytorch-simple"

Resources:
    36 unchanged

Duration: 5s

"""


@pytest.fixture
def pulumi(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pulumi that says and logs what the files beside it hold."""
    fake("pulumi", STANDIN)
    for name, content in (("EVENTS", ""), ("OUTPUT", OUTPUT)):
        (tmp_path / name).write_text(content)
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("STATUS", "0")
    monkeypatch.delenv(pulumi_output.VERBOSE, raising=False)
    monkeypatch.setattr(pulumi_output, "LOGS", tmp_path / "logs")
    monkeypatch.setattr(pulumi_output, "ROOT", tmp_path)
    monkeypatch.setattr(pulumi_output, "_begun", set())
    return tmp_path


def run(pulumi: Path, verb: str = "up") -> int:
    return pulumi_cli.stream({"PATH": os.environ["PATH"]}, verb, "--stack", "dev")


def diagnostic(severity: str, message: str) -> str:
    return json.dumps({"diagnosticEvent": {"severity": severity, "message": f"{message}\n"}}) + "\n"


def test_all_of_it_is_in_the_log_and_the_summary_on_the_screen(
    pulumi: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (pulumi / "EVENTS").write_text(diagnostic("info", "it is so"))
    assert run(pulumi) == 0
    shown = capfd.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == [
        "   Pulumi's own output is in logs/pulumi-up-dev.log; with -v it is shown here, too",
        "it is so",
        *("Resources:", "    36 unchanged"),
    ]
    assert (pulumi / "logs" / "pulumi-up-dev.log").read_text() == OUTPUT


@pytest.mark.parametrize(
    ("changes", "is_unchanged"), [("", True), ("    ~ 1 updated\n    1 change. ", False)]
)
@pytest.mark.parametrize("verbose", [False, True])
def test_the_suites_on_clusters_know_an_update_that_changed_nothing(
    pulumi: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    changes: str,
    is_unchanged: bool,
    verbose: bool,
) -> None:
    (pulumi / "OUTPUT").write_text(OUTPUT.replace("    36", f"{changes or '    '}36"))
    if verbose:
        monkeypatch.setenv(pulumi_output.VERBOSE, "yes")
    assert run(pulumi) == 0
    assert bool(UNCHANGED.search("".join(capfd.readouterr()))) == is_unchanged


def test_the_log_is_named_once_and_holds_every_round(pulumi: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (pulumi / "logs").mkdir()
    (pulumi / "logs" / "pulumi-up-dev.log").write_text("of yesterday")
    assert (run(pulumi), run(pulumi)) == (0, 0)
    assert capfd.readouterr().err.count("own output is in") == 1
    assert (pulumi / "logs" / "pulumi-up-dev.log").read_text() == 2 * OUTPUT


def test_verbose_shows_it_as_it_is_and_logs_it(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(pulumi_output.VERBOSE, "yes")
    (pulumi / "EVENTS").write_text(diagnostic("info", "it is so"))
    assert run(pulumi) == 0
    assert capfd.readouterr() == (OUTPUT, "")
    assert (pulumi / "logs" / "pulumi-up-dev.log").read_text() == OUTPUT


def test_a_plan_is_shown(pulumi: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(pulumi, "preview") == 0
    assert capfd.readouterr() == (OUTPUT, "")


@pytest.mark.parametrize("before", ["", "Updating (dev):\n"])
def test_a_failure_that_no_event_explains_shows_the_end_of_the_output(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], before: str
) -> None:
    monkeypatch.setenv("STATUS", "255")
    (pulumi / "OUTPUT").write_text(f"{before}error: could not read the checkpoint\n  file://state")
    assert run(pulumi) == 255
    assert "error: could not read the checkpoint\n  file://state\n" in capfd.readouterr().err


def test_a_failure_that_is_explained_is_said_once(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STATUS", "255")
    (pulumi / "EVENTS").write_text(diagnostic("error", "boom") + diagnostic("error", "update failed"))
    (pulumi / "OUTPUT").write_text("error: boom\nerror: update failed\n")
    assert run(pulumi) == 255
    assert re.findall("error.*", capfd.readouterr().err) == ["error: boom"]

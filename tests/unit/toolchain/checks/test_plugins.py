"""The plugins of `make test`: skips that are not listed, failures shown early, an interrupted run taken up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import conftest, skips
from tests.e2e.project import Project
from tests.matrix import entries, test_on_kind
from toolchain.paths import ROOT

SPREAD = ("-p", "xdist", "-n", "1")
MIXED = """
import pytest
def test_good(): pass
def test_bad(): assert False, "this is wrong"
@pytest.mark.skip(reason="no scales here")
def test_skipped(): pass
@pytest.mark.xfail
def test_expected(): assert False
def test_last(): pass
"""


def run(folder: Path, tests: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(tests)
    own = ["-p", "no:cacheprovider", f"--rootdir={folder}", "-c", "/dev/null", str(folder / "test_it.py")]
    command = [sys.executable, "-m", "pytest", "-v", *own, *arguments]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # half of pytest's start
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("spread", [(), SPREAD], ids=["one process", "xdist"])
def test_a_skip_that_is_not_listed_fails_the_run(tmp_path: Path, spread: tuple[str, ...]) -> None:
    done = run(tmp_path, MIXED, "-p", "tests.skips", "-k", "not bad", *spread)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "skips that fail the run" in done.stdout
    assert "test_skipped: Skipped: no scales here" in done.stdout


def test_without_it_the_run_passes(tmp_path: Path) -> None:
    done = run(tmp_path, MIXED, "-p", "tests.skips", "-k", "not bad and not skipped")
    assert done.returncode == pytest.ExitCode.OK, done.stdout


def test_a_listed_skip_is_told_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skips, "ALLOWED", {"tests/test_scales.py::test_weight": "nobody needs it"})
    found = skips.Skips()
    for name in ("test_weight[kg]", "test_other"):
        told = ("test_scales.py", 1, "Skipped: no scales")
        where = ("tests/test_scales.py", 1, name)
        report = pytest.TestReport(f"tests/test_scales.py::{name}", where, {}, "skipped", told, "call")
        found.pytest_runtest_logreport(report)
    assert [line.split(": ")[-1] for line in found.listed] == ["nobody needs it"]
    assert [line.split(": ")[0] for line in found.unlisted] == ["tests/test_scales.py::test_other"]


def test_every_listed_skip_names_a_test_and_a_reason() -> None:
    for test, reason in skips.ALLOWED.items():
        file, _, name = test.partition("::")
        assert f"def {name}" in (ROOT / file).read_text()
        assert reason


def test_a_failure_is_shown_when_it_happens(tmp_path: Path) -> None:
    done = run(tmp_path, MIXED, "-p", "tests.skips")
    assert done.stdout.index("this is wrong") < done.stdout.index("test_last PASSED")


CLUSTER = """
import pytest
from tests.e2e import clones
from tests.e2e.project import Project
from tests.matrix import entries, test_on_kind

class Standing(Project):
    def dump(self): return "events of " + self.cluster

@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    clones.STANDING.append(Standing(tmp_path_factory.mktemp("clone"), "test-1"))

@pytest.fixture
def broken(machine): raise OSError("no such node")

def test_bad(machine): assert False
def test_broken(broken): pass
def test_good(machine): pass
"""


@pytest.mark.parametrize("spread", [(), SPREAD], ids=["one process", "xdist"])
def test_a_failure_shows_the_cluster(tmp_path: Path, spread: tuple[str, ...]) -> None:
    done = run(tmp_path, CLUSTER, "-p", "tests.skips", "-p", "tests.conftest", *spread)
    early, _, summary = done.stdout.partition("= ERRORS =")
    assert early.count("events of test-1") == 2, done.stdout
    assert summary.count("events of test-1") == 2, done.stdout


def test_a_dump_goes_on_where_a_command_cannot_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_: Project, program: str, *words: str, **_options: object) -> subprocess.CompletedProcess[str]:
        if words[:2] == ("get", "events"):
            raise subprocess.TimeoutExpired([program, *words], 120)
        return subprocess.CompletedProcess([program, *words], 0, f"said by {words[0]}\n", "")

    monkeypatch.setattr(Project, "run", run)
    monkeypatch.setattr(Project, "has_cluster", True)
    dumped = Project(tmp_path, "test-1").dump()
    assert "timed out after 120 seconds" in dumped
    assert [f"said by {word}" in dumped for word in ("get", "describe", "logs", "ps")] == [True] * 4


def test_a_dump_before_there_is_a_cluster_asks_the_engine_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def run(_: Project, *words: str, **_options: object) -> subprocess.CompletedProcess[str]:
        asked.append(words[0])
        return subprocess.CompletedProcess(words, 0, "", "")

    monkeypatch.setattr(Project, "run", run)
    monkeypatch.setattr(Project, "environment", lambda self: {"KUBECONFIG": str(tmp_path / "none")})
    Project(tmp_path, "test-1").dump()
    assert asked == ["docker"]


def test_tests_of_a_group_are_handed_out_together() -> None:
    scheduling = object.__new__(conftest.GroupScheduling)
    alone = "tests/preview/test_stacks.py::test_there_are_five"
    together = (
        "tests/e2e/test_digits.py::test_a",
        "tests/faults/test_refusals.py::test_b[c]",
        "tests/e2e/test_over_runs.py::d",
    )
    same_file = [f"tests/matrix/test_secrets.py::test_{name}" for name in "ab"]
    scheduling.registered_collections = {None: [*together, alone, *same_file]}
    assert {scheduling._split_scope(each) for each in together} == {"cluster"}
    assert scheduling._split_scope(alone) == alone
    assert len({scheduling._split_scope(each) for each in same_file}) == 1


@pytest.mark.parametrize(
    ("file", "variables", "niceness", "expected"),
    [
        ("tests/matrix/test_secrets.py", {"PYTEST_XDIST_WORKER": "gw1"}, 0, [conftest.NICENESS]),
        ("tests/trainer/test_image.py", {"PYTEST_XDIST_WORKER": "gw1"}, 0, [conftest.NICENESS]),
        ("tests/matrix/test_secrets.py", {"PYTEST_XDIST_WORKER": "gw1"}, conftest.NICENESS, []),
        ("tests/e2e/test_digits.py", {"PYTEST_XDIST_WORKER": "gw1"}, 0, []),
        ("tests/matrix/test_secrets.py", {}, 0, []),
    ],
    ids=["of no group", "of another group", "again", "of the longest chain", "in the only process"],
)
def test_what_runs_beside_the_longest_chain_makes_way_for_it(
    monkeypatch: pytest.MonkeyPatch, file: str, variables: dict[str, str], niceness: int, expected: list[int]
) -> None:
    made: list[int] = []
    monkeypatch.setattr(os, "environ", variables)
    monkeypatch.setattr(os, "getpriority", lambda *_: niceness)
    monkeypatch.setattr(os, "setpriority", lambda *given: made.append(given[-1]))
    conftest.pytest_runtest_setup(SimpleNamespace(path=ROOT / file))  # type: ignore[arg-type]
    assert made == expected


STOPPED = """
from pathlib import Path
import pytest
@pytest.mark.parametrize("key", ["storage.labels", "job.tolerations.key"])
def test_first(key): Path("{seen}", key).open("a").write("x")
def test_second():
    with Path("{seen}/second").open("a") as file: file.write("x")
    if Path("{seen}/second").read_text() == "x": raise KeyboardInterrupt
def test_bad(): assert Path("{seen}/good").exists()
"""


@pytest.mark.parametrize("spread", [(), SPREAD], ids=["one process", "xdist"])
def test_a_run_is_taken_up_after_the_tests_that_have_passed(tmp_path: Path, spread: tuple[str, ...]) -> None:
    plugin = ("-p", "tests.passed_tests", f"--passed={tmp_path / 'passed'}", *spread)
    tests = STOPPED.format(seen=tmp_path)
    assert run(tmp_path, tests, *plugin).returncode == pytest.ExitCode.INTERRUPTED
    again = run(tmp_path, tests, *plugin)
    assert again.returncode == pytest.ExitCode.TESTS_FAILED
    assert "2 tests have passed in the interrupted run" in again.stdout
    (tmp_path / "good").touch()
    assert run(tmp_path, tests, *plugin).returncode == pytest.ExitCode.OK, "what failed is run again"
    assert run(tmp_path, tests, *plugin).returncode == pytest.ExitCode.OK, "nothing is left to run"
    assert [(tmp_path / key).read_text() for key in ("storage.labels", "job.tolerations.key")] == ["x", "x"]
    assert (tmp_path / "second").read_text() == "xx"


def test_keys_of_the_matrix_that_have_passed_are_left_out(tmp_path: Path) -> None:
    folder, name = "tests/matrix", "test_changes_as_its_rule_says_and_back"
    ids = [f"{folder}/test_objects.py::{name}[{key}]" for key in entries.OBJECTS]
    ids += [f"{folder}/test_on_kind.py::{name}[{key}]" for key in test_on_kind.ENTRIES]
    left = [ids.pop(0), ids.pop()]
    (tmp_path / "passed").write_text("".join(f"{each}\n" for each in ids))
    chosen = ("-m", "", "-k", name, "-p", "tests.passed_tests", f"--passed={tmp_path / 'passed'}")
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", folder, *chosen]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert sorted(line for line in done.stdout.splitlines() if "::" in line) == sorted(left), done.stdout

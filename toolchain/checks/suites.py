"""Runs the test suites in the environment that set-up makes."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolchain.machine import engine, inotify, processes
from toolchain.machine.processes import end_with_parent
from toolchain.operating import environment, setup
from toolchain.options import MAKE_GIVEN, MAKE_GOALS
from toolchain.paths import LOCAL, ROOT, VENV
from toolchain.steps import phase_times, say
from toolchain.tools import build, venv

SHOWN = ("-v", "--durations=25", "--durations-min=5")
CORES = processes.cores()
PYTHON = VENV / "bin" / "python"
TAKE_DOWN_S = 60


def hang_after(seconds: float) -> list[str]:
    """pytest's options for a time limit: a test that takes longer fails with its stack trace, and ends the run."""
    limits = [f"faulthandler_timeout={seconds}", "faulthandler_exit_on_timeout=true"]
    return ["--max-worker-restart=0", *(f"--override-ini={each}" for each in limits)]


NO_HANG = hang_after(3000)  # seconds; on the slowest machine so far, the longest test took 1,800


@dataclass(frozen=True)
class Stage:
    """One call of pytest.

    Parameters:
        folders: where the tests are.
        marks: pytest's expression of markers, which selects the tests.
        needs_machine: whether the tests need more than the virtual environment.
        processes: how many tests run at once.
        may_skip: whether tests may be skipped for a reason that is not listed.
        plugin: a module that pytest loads only for this stage.
        options: of pytest, only for this stage.
        inotify_instances: how many instances the nodes of its clusters need; 0 if the machine's limit is enough.
    """

    folders: Sequence[str]
    marks: str
    needs_machine: bool = True
    processes: int = 2 * CORES + 1  # most of them wait for a cluster most of the time
    may_skip: bool = False
    plugin: str = ""
    options: Sequence[str] = ()
    inotify_instances: int = 0

    def has(self, named: str) -> bool:
        """Whether the stage contains a file, a folder or a test, named as for pytest."""
        path = Path(named.partition("::")[0])
        return any(path.is_relative_to(folder) for folder in self.folders)


# From fast to slow, so that a mistake shows early.
UNIT = Stage(["tests/unit"], "not slow and not pulumi", needs_machine=False, processes=CORES, options=NO_HANG)
EVERY_UNIT = Stage(["tests/unit"], "not pulumi", needs_machine=False, processes=CORES)
MACHINE = [
    "tests/unit/toolchain/operating/test_backend_with_pulumi.py",
    "tests/monitoring",
    "tests/sweep",
    "tests/browser",
    "tests/preview",
    "tests/matrix",
    "standins/tests",
    "tests/trainer",
    "tests/faults",
    "tests/e2e",
    "tests/runbooks",
]
SAMPLE = "--cases=sample"  # of tests that are marked `sampled`; the other suites run all their cases
# The slow trials of the table of faults, each with its own cluster or training, belong to `make reliability`.
EVERY = "not bench and not gpu and not (row and slow)"

SUITES = {
    "unit": [UNIT],
    "ci": [UNIT, Stage(MACHINE, "not slow and not bench and not gpu", options=[*NO_HANG, SAMPLE])],
    # Several groups have two or three clusters at once: more processes would only wait.
    "full": [EVERY_UNIT, Stage(MACHINE, EVERY, processes=2 * CORES, inotify_instances=512)],
    "bench": [Stage(["tests/bench"], "bench", processes=0, may_skip=True)],
    "pictures": [
        Stage(["tests/e2e/test_tutorial.py"], "", processes=0, options=["--record-tutorial"]),
    ],
    # One after the other, so that the seconds to recover are measured on an idle machine.
    "reliability": [Stage(MACHINE, "row", processes=0, plugin="tests.faults.table.plugin")],
}
RESUMED = {"full"}
"""Suites that continue after an interruption: tests that have passed do not run again."""
PASSED = LOCAL / "passed"

NONE_CHOSEN = 5
"""pytest's exit status if options such as `-k` select no test."""


def api_server() -> list[Path]:
    """The folders with kube-apiserver, kubectl, etcd, kubeconform and actionlint, for tests without a cluster."""
    return [build.build(name) for name in ("kubernetes", "kubeconform", "actionlint")]


def test(name: str, extra: Sequence[str]) -> int:
    """Run a suite; returns pytest's first exit status that is not 0. Raises SetupError if set-up fails.

    Options in `extra` may leave some stages without a test, but not all stages. If `extra` names files, folders or
    tests, only these run.
    """
    passed = passed_file(name) if name in RESUMED else None
    try:
        status = _stages(SUITES[name], passed, extra)
    finally:
        if any(stage.needs_machine for stage in SUITES[name]):
            with setup.project_lock():
                engine.stop()  # our engine, if nobody else uses it
    if passed and status == 0:
        passed.unlink(missing_ok=True)
    return status


def _stages(stages: Sequence[Stage], passed: Path | None, extra: Sequence[str]) -> int:
    status = NONE_CHOSEN
    named = [each for each in extra if any(stage.has(each) for stage in stages)]
    options = [each for each in extra if each not in named]
    for stage in stages:
        folders = [each for each in named if stage.has(each)] if named else stage.folders
        if not folders:
            continue
        with setup.project_lock():
            variables = _prepare(stage)
        for phase, seconds in phase_times():
            print(f"{seconds:7.1f} s  {phase}", flush=True)
        plugins = [] if stage.may_skip else ["-p", "tests.skips"]
        plugins += ["-p", "tests.passed_tests", f"--passed={passed}"] if passed else []
        plugins += ["-p", stage.plugin] if stage.plugin else []
        spread = ["--numprocesses", str(stage.processes)] if stage.processes else []
        given = [*plugins, *spread, *stage.options, *SHOWN, *options]
        chosen = [*folders, "-m", stage.marks, *given]
        with inotify.at_least(stage.inotify_instances):
            ended = run_pytest(chosen, environment.for_child(variables))
        if ended not in (0, NONE_CHOSEN if extra else 0):
            return ended
        status = min(status, ended)
    return status


def _prepare(stage: Stage) -> dict[str, str]:
    if not stage.needs_machine:
        venv.ensure()
        return {"PATH": environment.path()}
    variables = environment.for_stack(setup.prepare(), "dev")
    # PATH also has uv: the stand-ins' tests install them into a new environment.
    return {**variables, "PATH": os.pathsep.join([variables["PATH"], *map(str, api_server())])}


def run_pytest(arguments: Sequence[str], variables: Mapping[str, str]) -> int:
    """Run `pytest <arguments>`; returns its exit status. After an interrupt, clean up and raise KeyboardInterrupt."""
    child = subprocess.Popen(
        [PYTHON, "-m", "pytest", *arguments],
        cwd=ROOT,
        env=without_make(variables),
        # A process group of its own: otherwise Ctrl-C would reach its processes twice, and interrupt their clean-up.
        start_new_session=True,
        preexec_fn=lambda: end_with_parent(signal.SIGINT),
    )
    try:
        return child.wait()
    except KeyboardInterrupt:
        say("interrupted: the tests delete what they started")
        _end(child)
        subprocess.run([PYTHON, "-m", "tests.e2e.clones"], cwd=ROOT, env=variables)
        raise


def without_make(variables: Mapping[str, str]) -> dict[str, str]:
    """`variables` without those that make passes on: tests call make, and must not get ARGS or STACK of this call.

    PYTHON stays, because it may be the only Python that is new enough.
    """
    own = set(re.findall(r"^([A-Z_]+) \?=", (ROOT / "Makefile").read_text(), re.MULTILINE)) - {"PYTHON"}
    own |= {MAKE_GIVEN, MAKE_GOALS}
    return {
        name: value
        for name, value in variables.items()
        if name not in own and not name.startswith(("MAKE", "MFLAGS"))
    }


def _end(child: subprocess.Popen[bytes]) -> None:
    os.killpg(child.pid, signal.SIGINT)
    try:
        child.wait(TAKE_DOWN_S)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def passed_file(suite: str) -> Path:
    """The file that lists the passed tests of `suite` for the current files. Lists for older files are removed."""
    PASSED.mkdir(parents=True, exist_ok=True)
    present = PASSED / f"{suite}-{_fingerprint()}"
    for old in PASSED.glob(f"{suite}-*"):
        if old != present:
            old.unlink()
    return present


def _fingerprint() -> str:
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    digest = hashlib.sha256()
    for name in sorted(set(filter(None, names))):
        path = ROOT / name
        digest.update(f"{name}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest() if path.is_file() else b"")
    return digest.hexdigest()[:16]

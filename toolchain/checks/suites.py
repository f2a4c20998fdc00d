"""Runs the test suites in the environment that set-up gives."""

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
    """Options of pytest's: a test that takes longer fails with the lines it stood at, and ends the run."""
    limits = [f"faulthandler_timeout={seconds}", "faulthandler_exit_on_timeout=true"]
    return ["--max-worker-restart=0", *(f"--override-ini={each}" for each in limits)]


NO_HANG = hang_after(3000)  # on the slowest machine so far, the longest test took 1,800


@dataclass(frozen=True)
class Stage:
    """One call of pytest.

    Parameters:
        folders: where the tests are.
        marks: which of them, by marker.
        needs_machine: whether they need more than the virtual environment.
        processes: how many of them run at once.
        may_skip: whether a test that is skipped without a listed reason leaves the run good.
        plugin: a module that pytest loads for this stage alone.
        options: of pytest's, for this stage alone.
        inotify_instances: how many the nodes of its clusters may have at once; 0 where the machine's limit will do.
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
        """Whether a file, a folder or a test, named as pytest takes them, is among these."""
        path = Path(named.partition("::")[0])
        return any(path.is_relative_to(folder) for folder in self.folders)


# From the quick to the slow, so that a mistake shows early.
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
# The slow tries of the table of faults, each with a cluster or a training of its own, are `make reliability`'s.
EVERY = "not bench and not gpu and not (row and slow)"

SUITES = {
    "unit": [UNIT],
    "ci": [UNIT, Stage(MACHINE, "not slow and not bench and not gpu", options=NO_HANG)],
    # Several groups have two or three clusters at once: more processes only wait for each other's.
    "full": [EVERY_UNIT, Stage(MACHINE, EVERY, processes=2 * CORES, inotify_instances=512)],
    "bench": [Stage(["tests/bench"], "bench", processes=0, may_skip=True)],
    "pictures": [
        Stage(["tests/e2e/test_tutorial.py"], "", processes=0, options=["--record-tutorial"]),
    ],
    # One after the other: the seconds to recover are to be those of a machine that does nothing else.
    "reliability": [Stage(MACHINE, "row", processes=0, plugin="tests.faults.table.plugin")],
}
TAKEN_UP = {"full"}
"""Suites that, once interrupted, go on after the tests that have passed."""
PASSED = LOCAL / "passed"

NONE_CHOSEN = 5
"""pytest's exit status where options such as `-k` have left no test."""


def api_server() -> list[Path]:
    """The folders with kube-apiserver, kubectl, etcd, kubeconform and actionlint, for tests without any cluster."""
    return [build.build(name) for name in ("kubernetes", "etcd", "kubeconform", "actionlint")]


def test(name: str, extra: Sequence[str]) -> int:
    """Run a suite; returns the first exit status of pytest that is not 0. Raises SetupError when set-up fails.

    Options in `extra` may leave a stage without a test, but not each of them. Files, folders and tests that are named
    there are all that is run.
    """
    passed = passed_file(name) if name in TAKEN_UP else None
    try:
        status = _stages(SUITES[name], passed, extra)
    finally:
        if any(stage.needs_machine for stage in SUITES[name]):
            with setup.project_lock():
                engine.stop()  # ours, where nobody else uses it
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
    # uv is on it, too: the stand-ins' tests install them into a new environment.
    return {**variables, "PATH": os.pathsep.join([variables["PATH"], *map(str, api_server())])}


def run_pytest(arguments: Sequence[str], variables: Mapping[str, str]) -> int:
    """The exit status of `pytest <arguments>`. Raises KeyboardInterrupt after an interrupt, with everything down."""
    child = subprocess.Popen(
        [PYTHON, "-m", "pytest", *arguments],
        cwd=ROOT,
        env=without_make(variables),
        # A group of its own: the terminal's Ctrl-C would reach its processes twice, and cut their taking down short.
        start_new_session=True,
        preexec_fn=lambda: end_with_parent(signal.SIGINT),
    )
    try:
        return child.wait()
    except KeyboardInterrupt:
        say("interrupted: the tests take down what they have started")
        _end(child)
        subprocess.run([PYTHON, "-m", "tests.e2e.clones"], cwd=ROOT, env=variables)
        raise


def without_make(variables: Mapping[str, str]) -> dict[str, str]:
    """`variables` without what make hands on: tests call make themselves, and ARGS or STACK of this call is not theirs.

    The interpreter stays, which may be the only one that is new enough.
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
    """The list for `suite` on the files as they are now. Lists for other files are removed: they say nothing."""
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

"""Runs the test suites in the environment that set-up gives."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from toolchain import setup
from toolchain.operating import environment
from toolchain.paths import ROOT, VENV
from toolchain.steps import phase_times
from toolchain.tools import build, go_modules, venv


@dataclass(frozen=True)
class Stage:
    """One call of pytest: which tests, by marker, and whether they need more than the virtual environment."""

    folders: Sequence[str]
    marks: str
    needs_machine: bool = True


UNIT = Stage(["tests/unit"], "not slow", needs_machine=False)
# From the quick to the slow, so that a mistake shows early. The first waits for a real pulumi.
MACHINE = [
    "tests/unit/toolchain/operating/test_backend_with_pulumi.py",
    "tests/preview",
    "standins/tests",
    "tests/trainer",
    "tests/faults",
    "tests/e2e",
    "tests/runbooks",
]

SUITES = {
    "unit": [UNIT],
    "ci": [UNIT, Stage(MACHINE, "not slow and not bench and not gpu")],
    "full": [UNIT, Stage(MACHINE, "not bench and not gpu")],
    "bench": [Stage(["tests/bench"], "bench")],
}


def api_server() -> list[Path]:
    """The folders with kube-apiserver, kubectl and etcd, which the plugin's tests run without any cluster."""
    return [build.build(go_modules.load(name)) for name in ("kubernetes", "etcd")]


def test(name: str, extra: Sequence[str]) -> int:
    """Run a suite; returns the first exit status of pytest that is not 0. Raises SetupError when set-up fails."""
    for stage in SUITES[name]:
        with setup.alone():
            if stage.needs_machine:
                variables = environment.complete(setup.prepare(), "dev")
                variables["PATH"] = os.pathsep.join([variables["PATH"], *map(str, api_server())])
            else:
                venv.ensure()
                variables = {"PATH": environment.path()}
        for phase, seconds in phase_times():
            print(f"{seconds:7.1f} s  {phase}", flush=True)
        pytest = [str(VENV / "bin" / "python"), "-m", "pytest", *stage.folders, "-m", stage.marks, *extra]
        if status := subprocess.run(pytest, cwd=ROOT, env=environment.full(variables)).returncode:
            return status
    return 0

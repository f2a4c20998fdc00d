"""Runs Pulumi: its lines as they come, Ctrl-C handed on exactly once, and no orphan when we are killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from typing import Any

from toolchain import interruption
from toolchain.machine.processes import end_with_parent
from toolchain.operating import pulumi_output
from toolchain.operating.environment import for_child
from toolchain.paths import ROOT
from toolchain.steps import SetupError, wait

PARENT = "TRAINSTACK_PARENT"
"""Variable that tells the process that started a pulumi, for one that outlives it."""

PATIENCE_S = 10.0


def _interrupt_with_parent() -> None:
    # A Pulumi that outlives a killed `make up` would hold the stack's lock until its work is done.
    end_with_parent(signal.SIGINT)


def program(variables: Mapping[str, str]) -> str:
    """The pulumi that `variables` put on PATH. Raises SetupError where there is none."""
    found = shutil.which("pulumi", path=variables["PATH"])
    if not found:
        raise SetupError("pulumi is not set up yet", "make up")
    return found


def stream(variables: Mapping[str, str], *arguments: str) -> int:
    """Run `pulumi <arguments>`, its output as `pulumi_output` has it; returns its exit status.

    Ctrl-C asks it to finish what it has begun, as on a terminal. A wait for a job cannot be cancelled, so after
    PATIENCE_S it is told to leave that, and then killed: the next run takes up what is left.
    """
    with _Interrupted() as interrupted, pulumi_output.watching(arguments) as (watching, options, wanted):
        # In a session of its own: from the terminal, Ctrl-C would reach it twice.
        child = subprocess.Popen(
            [program(variables), *arguments, *options],
            cwd=ROOT,
            env={**for_child(variables), **wanted, PARENT: str(os.getpid())},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            start_new_session=True,
            preexec_fn=_interrupt_with_parent,
        )
        interrupted.child(child)
        assert child.stdout
        watching.read(child.stdout.fileno())
        status = wait(child)
        watching.ended(status)
        return status


class _Interrupted:
    """Hands an interrupt on to pulumi, even one that came before pulumi was started.

    To pulumi a second interrupt says: leave what is under way.
    """

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._begun = False
        self._timers = [
            threading.Timer(PATIENCE_S, self._interrupt),
            threading.Timer(2 * PATIENCE_S, self._kill),
        ]
        self._handed = interruption.handled_by(self._begin, self._interrupt)

    def child(self, child: subprocess.Popen[bytes]) -> None:
        begun, self._child = self._begun, child
        if begun:
            self._interrupt()

    def __enter__(self) -> _Interrupted:
        self._handed.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        for timer in self._timers:
            timer.cancel()
        self._handed.__exit__(*error)

    def _begin(self) -> None:
        self._begun = True
        self._interrupt()
        for timer in self._timers:
            timer.start()

    def _interrupt(self) -> None:
        if self._child:
            self._child.send_signal(signal.SIGINT)

    def _kill(self) -> None:
        if self._child:
            self._child.kill()


def deployment(variables: Mapping[str, str], stack: str) -> dict[str, Any]:
    """What the backend holds of `stack`, whichever backend it is. Raises SetupError with Pulumi's own words."""
    exported = json.loads(_output(variables, "stack", "export", "--stack", stack))
    found: dict[str, Any] = exported.get("deployment") or {}
    return found


def preview(variables: Mapping[str, str], stack: str, *options: str) -> list[dict[str, Any]]:
    """The steps that an update would take now. Raises SetupError with Pulumi's own words."""
    planned = json.loads(_output(variables, "preview", "--json", *options, "--stack", stack))
    steps: list[dict[str, Any]] = planned.get("steps") or []
    return steps


def history(variables: Mapping[str, str], stack: str) -> list[dict[str, Any]]:
    """What was done to `stack`, the latest first, as far back as Pulumi shows at once. Raises SetupError."""
    found: list[dict[str, Any]] = json.loads(
        _output(variables, "stack", "history", "--json", "--page-size", "100", "--stack", stack) or "[]"
    )
    return found


def edit_state(variables: Mapping[str, str], stack: str, edit: Callable[[dict[str, Any]], object]) -> None:
    """Export the stack's deployment, let `edit` change it, import it. Raises SetupError."""
    exported = json.loads(_output(variables, "stack", "export", "--stack", stack))
    edit(exported["deployment"])
    _output(variables, "stack", "import", "--stack", stack, stdin=json.dumps(exported))


def _output(variables: Mapping[str, str], *arguments: str, stdin: str = "") -> str:
    cmd = [program(variables), *arguments, "--non-interactive"]
    done = subprocess.run(
        cmd, cwd=ROOT, env=for_child(variables), input=stdin, capture_output=True, text=True
    )
    if done.returncode:
        said = _errors(done.stdout) or done.stderr.strip()
        raise SetupError(f"`pulumi {' '.join(arguments)}` failed: {said}")
    return done.stdout


def _errors(printed: str) -> str:
    """The errors in what a command with --json has printed: its other output has warnings alone. Else empty."""
    try:
        told = json.loads(printed).get("diagnostics") or []
    except (ValueError, AttributeError):
        return ""
    return "\n".join(each["message"].strip() for each in told if each["severity"] == "error")

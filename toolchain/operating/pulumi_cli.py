"""Runs Pulumi: shows its lines at once, passes Ctrl-C on exactly once, and leaves no process when we are killed."""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from toolchain import interruption
from toolchain.machine.processes import end_with_parent
from toolchain.operating import pulumi_events, pulumi_output, stack_locks, state, user_backend
from toolchain.operating.environment import for_child
from toolchain.operating.stack_locks import PARENT
from toolchain.paths import ROOT
from toolchain.steps import SetupError, step, wait

PATIENCE_S = 10.0
AGAIN_S = 5.0
"""The longest pause, in seconds, before a retry on a stack that somebody else works on."""

EDITS = 24
"""How often an edit of the state is retried because somebody else has changed the state."""

Edited = TypeVar("Edited")


def program(variables: Mapping[str, str]) -> str:
    """The program pulumi on the PATH of `variables`. Raises SetupError if there is none."""
    found = shutil.which("pulumi", path=variables["PATH"])
    if not found:
        raise SetupError("pulumi is not set up yet", "make up")
    return found


def stream(variables: Mapping[str, str], *arguments: str) -> int:
    """Run `pulumi <arguments>`, and show its output as `pulumi_output` does; returns the exit status.

    If somebody else works on the stack, this function waits, and raises SetupError after too long a wait.

    Ctrl-C asks Pulumi to finish running operations, as on a terminal. Pulumi cannot cancel a wait for a job. So this
    function tells Pulumi after PATIENCE_S to stop, and kills it after twice that time. The next run continues.
    """
    return _in_turn(_stack(arguments), lambda: _streamed(variables, arguments))[0]


def _in_turn(stack: str, run: Callable[[], tuple[int, str]]) -> tuple[int, str]:
    """Call `run` until no lock of somebody else on `stack` stops it; returns the last call's exit status and output.

    Raises SetupError if such a lock stays for stack_locks.WAIT_S. If the owners of the locks are unknown, that time
    counts for all locks together.
    """
    deadline = time.monotonic() + stack_locks.WAIT_S
    while True:
        status, said = run()
        if not status or not stack_locks.is_refusal(said):
            return status, said
        if stack_locks.locks(stack):
            stack_locks.release(stack)
            deadline = time.monotonic() + stack_locks.WAIT_S
        elif time.monotonic() > deadline:
            raise SetupError(
                f"stack {stack} is locked:\n{said.strip()}",
                f"wait until the command that holds the lock has ended; {stack_locks.cancel(stack)}",
            )
        else:
            _pause(stack)


def _pause(stack: str) -> None:
    """Wait for a random time, so that two commands that wait for each other do not collide again."""
    with step(f"waiting: somebody else works on stack {stack}"):
        time.sleep(random.uniform(0.2, 1.0) * AGAIN_S)


def _stack(arguments: Sequence[str]) -> str:
    return arguments[arguments.index("--stack") + 1] if "--stack" in arguments else ""


def _streamed(variables: Mapping[str, str], arguments: Sequence[str]) -> tuple[int, str]:
    with _Interrupted() as interrupted, pulumi_output.watching(arguments) as (watching, options, wanted):
        # Pulumi has its own session: otherwise Ctrl-C on the terminal would reach it twice. It is interrupted when we
        # are killed: otherwise it would hold the stack's lock until its work is done.
        child = subprocess.Popen(
            [program(variables), *arguments, *options],
            cwd=ROOT,
            env={**for_child(variables), **wanted, PARENT: str(os.getpid())},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            start_new_session=True,
            preexec_fn=lambda: end_with_parent(signal.SIGINT),
        )
        interrupted.child(child)
        assert child.stdout
        watching.read(child.stdout.fileno())
        status = wait(child)
        return status, watching.ended(status)


class _Interrupted:
    """Passes an interrupt on to pulumi, even an interrupt from before pulumi was started.

    A second interrupt tells pulumi to stop running operations.
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
    """The deployment of `stack` in the backend. Our own backend is read without Pulumi, which saves a second.

    Raises SetupError; for the user's backend, the error has Pulumi's own words.
    """
    if not user_backend.backend():
        return state.deployment(stack)
    found: dict[str, Any] = _exported(variables, stack).get("deployment") or {}
    return found


def preview(
    variables: Mapping[str, str], stack: str, *options: str
) -> tuple[list[dict[str, Any]], list[str]]:
    """The steps of an update now, and the program's warnings. Raises SetupError with Pulumi's own words."""
    printed = _output(variables, "preview", "--json", *options, "--stack", stack)
    return json.loads(printed).get("steps") or [], _said(printed, "warning")


def history(variables: Mapping[str, str], stack: str) -> list[dict[str, Any]]:
    """The history of `stack`, the latest first, as far as Pulumi shows on one page. Raises SetupError."""
    found: list[dict[str, Any]] = json.loads(
        _output(variables, "stack", "history", "--json", "--page-size", "100", "--stack", stack) or "[]"
    )
    return found


def edit_state(variables: Mapping[str, str], stack: str, edit: Callable[[dict[str, Any]], Edited]) -> Edited:
    """Let `edit` change the stack's deployment in place; returns what `edit` returned.

    If an update of somebody else may be lost, this raises an error. In a backend of files, the stack's lock is held. In
    other backends, Pulumi locks only the import; `pulumi state` works in the same way
    (pkg/v3/cmd/pulumi/state/io.go). So if the state has changed since its export, it is edited again. An update
    between the last comparison and the import is found in the history. At the end, the state is exported once more,
    and must contain the edit.

    Parameters:
        edit: may be called several times, each time with another deployment. A second call on its own result must
            change nothing.

    Raises SetupError, also for an update during the import, and if the state keeps changing.
    """
    imported: list[Edited] = []
    with stack_locks.held(stack) as behind:
        asked = {**variables, **behind}
        for _ in range(EDITS):
            exported = _exported(asked, stack)
            before = None if behind else _last_update(asked, stack)
            edited = copy.deepcopy(exported)
            result = edit(edited["deployment"])
            if _without_empty(edited) == _without_empty(exported):
                return imported[-1] if imported else result
            if _exported(asked, stack) != exported:
                _pause(stack)
                continue
            _output(asked, "stack", "import", "--stack", stack, stdin=json.dumps(edited))
            imported.append(result)
            if not behind and (after := _last_update(asked, stack)) != before:
                ended = (after or {}).get("endTime")
                raise SetupError(
                    f"another update of stack {stack} ended ({ended}) while this command edited the state: "
                    "the result of that update may be lost",
                    f"run `make up STACK={stack}`, which finds objects that the state has lost",
                )
    raise SetupError(
        f"the state of stack {stack} keeps changing: somebody else works on it",
        "wait until that work is done, then run the same command",
    )


def _exported(variables: Mapping[str, str], stack: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_output(variables, "stack", "export", "--stack", stack))
    return found


def _without_empty(exported: Mapping[str, Any]) -> dict[str, Any]:
    """The deployment without empty parts, which Pulumi leaves out."""
    return {name: value for name, value in (exported["deployment"] or {}).items() if value}


def _last_update(variables: Mapping[str, str], stack: str) -> dict[str, Any] | None:
    """The latest entry in the history of `stack`. Imports of its state, which Pulumi Cloud lists, do not count."""
    return next((each for each in history(variables, stack) if each["kind"] != "import"), None)


def _output(variables: Mapping[str, str], *arguments: str, stdin: str = "") -> str:
    """What Pulumi prints. Waits if somebody else works on the stack. Raises SetupError with Pulumi's own words."""
    cmd = [program(variables), *arguments, "--non-interactive"]
    printed = ""

    def run() -> tuple[int, str]:
        nonlocal printed
        done = subprocess.run(
            cmd, cwd=ROOT, env=for_child(variables), input=stdin, capture_output=True, text=True
        )
        printed = done.stdout
        return done.returncode, "\n".join(_said(done.stdout, "error")) or done.stderr.strip()

    status, said = _in_turn(_stack(arguments), run)
    if status:
        fix = "" if "fix: " in said else pulumi_events.FIX
        raise SetupError(f"`pulumi {' '.join(arguments)}` failed: {said}", fix)
    return printed


def _said(printed: str, severity: str) -> list[str]:
    """Messages of `severity`, with their objects, in the output of a command with --json; empty if it is not JSON.

    Without Pulumi's warnings that it has found a plugin on PATH.
    """
    try:
        told = json.loads(printed).get("diagnostics") or []
    except (ValueError, AttributeError):
        return []
    found = [pulumi_events.about_object(each) for each in told if each["severity"] == severity]
    return [each for each in found if not pulumi_events.PLUGIN.match(each)]

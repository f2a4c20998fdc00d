"""Run a program once, by the engine's Run request."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pulumi_standins import protocol
from pulumi_standins.language.python_environments import Environment

if TYPE_CHECKING:
    from pulumi.runtime.proto.language_pb2 import RunRequest, RunResponse

EXECUTOR = Path(__file__).with_name("executor.py")
TOLD_THE_USER = 32


def command(request: RunRequest, environment: Environment, engine: str) -> list[str]:
    """The executor's command line; empty values are left out."""
    options = {
        "monitor": request.monitor_address,
        "engine": engine,
        "project": request.project,
        "root_directory": request.info.root_directory,
        "stack": request.stack,
        "pwd": request.pwd,
        "dry_run": "true" if request.dryRun else "false",
        "parallel": str(request.parallel),
        "organization": request.organization,
    }
    line = [str(environment.python), "-u", str(EXECUTOR)]
    for name, value in options.items():
        if value:
            line += [f"--{name}", value]
    return [*line, request.info.entry_point or request.program or ".", *request.args]


class RunningPrograms:
    """The running programs, so that a cancelled request or a stopping host can end them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[bytes]] = set()

    def run(
        self,
        request: RunRequest,
        environment: Environment,
        engine: str,
        on_cancel: Callable[[Callable[[], None]], bool],
    ) -> RunResponse:
        """Run to the end; stdout and stderr go to the engine, like the host's.

        Parameters:
            on_cancel: registers a callback for the end of the request; false if the request has ended already.
        """
        variables = environment.variables()
        variables["PULUMI_CONFIG"] = json.dumps(dict(request.config))
        variables["PULUMI_CONFIG_SECRET_KEYS"] = json.dumps(list(request.configSecretKeys))
        process = subprocess.Popen(
            command(request, environment, engine),
            cwd=request.info.program_directory or request.pwd or None,
            env=variables,
        )
        with self._lock:
            self._processes.add(process)
        if not on_cancel(lambda: _end(process)):
            _end(process)
        try:
            # Without a time-out: with one, Python would check for the end only 20 times a second.
            return _response(process.wait())
        finally:
            with self._lock:
                self._processes.discard(process)

    def stop(self) -> None:
        """End every program that still runs."""
        with self._lock:
            processes = list(self._processes)
        for process in processes:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()


def _response(status: int) -> RunResponse:
    response = protocol.language_pb2.RunResponse
    if status == 0:
        return response()
    if status == TOLD_THE_USER:
        return response(bail=True)
    if status < 0:
        return response(error=f"Program was ended by signal {signal.Signals(-status).name}")
    return response(error=f"Program exited with non-zero exit code: {status}")

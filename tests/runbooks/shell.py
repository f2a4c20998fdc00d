"""One bash that lives as long as a reader's terminal does: variables and background jobs last from block to block."""

from __future__ import annotations

import os
import queue
import shlex
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path


class Shell:
    """Runs commands one after the other; both outputs of each come back as one text."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env={**environment, "TERM": "dumb", "LC_ALL": "C.UTF-8"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put("")  # the end

    def run(self, command: str, timeout: float) -> tuple[int, str]:
        """Exit status and output of `command`; status -1, with what it has said, when it does not end in time."""
        mark = uuid.uuid4().hex
        assert self.process.stdin
        # Its input is empty, so that it cannot take the next command for an answer.
        self.process.stdin.write(f"eval {shlex.quote(command)} </dev/null\nprintf '\\n%s %s\\n' {mark} $?\n")
        self.process.stdin.flush()
        said: list[str] = []
        deadline = time.monotonic() + timeout
        while True:
            try:
                line = self.lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return -1, "".join(said)
            if line.startswith(mark):
                return int(line.split()[1]), "".join(said).removesuffix("\n")
            if not line:
                return -1, "".join(said)
            said.append(line)

    def close(self) -> None:
        """End the shell and what it still runs in the background."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        assert self.process.stdin
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait(timeout=30)

"""A process that has imported torch and forks the ranks of the tests' jobs: an import takes 2 s, a fork 20 ms.

It reads requests as JSON lines from its standard input and answers on its standard output:
`{"start": {...}}` with the new process's id, `{"poll": id}` with its exit status, null while it runs.
It never computes anything itself, so that no thread of torch is lost in a fork.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from functools import cache
from typing import Any

STARTING = threading.Lock()


def become(request: dict[str, Any]) -> None:
    """The forked child: take the request's environment, folder and files, then run the trainer or the given script."""
    import torch

    from trainer import __main__

    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    for descriptor, path in ((1, request["stdout"]), (2, request["stderr"])):
        with open(path, "ab") as file:
            os.dup2(file.fileno(), descriptor)
    os.environ.clear()
    os.environ.update(request["environ"])
    os.chdir(request["folder"])
    sys.path[:0] = [request["folder"], *filter(None, request["environ"].get("PYTHONPATH", "").split(":"))]
    sys.argv = ["trainer", *request["arguments"]]
    torch.set_num_threads(int(request["environ"]["OMP_NUM_THREADS"]))
    if request["script"]:
        exec(compile(request["script"], "script", "exec"), {"__name__": "__main__"})
        sys.stdout.flush()
        os._exit(0)
    __main__.run()


def serve() -> None:
    from trainer import __main__, evaluation, pictures, train  # noqa: F401

    ended: dict[int, int] = {}
    for line in sys.stdin:
        request = json.loads(line)
        answer: int | None
        if "start" in request:
            if not (answer := os.fork()):
                try:
                    become(request["start"])
                finally:
                    os._exit(1)
            ended.pop(answer, None)  # the kernel gives the id of a process again that has ended
        else:
            if request["poll"] not in ended:
                process, status = os.waitpid(request["poll"], os.WNOHANG)
                if process:
                    ended[process] = os.waitstatus_to_exitcode(status)
            answer = ended.get(request["poll"])
        print(json.dumps(answer), flush=True)


class Server:
    """The server as the tests see it."""

    def __init__(self) -> None:
        self.one_at_a_time = threading.Lock()
        environ = {**os.environ, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "tests.inside.fork_server"]
        self.process = subprocess.Popen(
            command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, request: dict[str, Any]) -> Any:
        assert self.process.stdin
        assert self.process.stdout
        with self.one_at_a_time:
            print(json.dumps(request), file=self.process.stdin, flush=True)
            return json.loads(self.process.stdout.readline())


@cache
def server() -> Server:
    return Server()


def close() -> None:
    """End the server, if there is one."""
    if server.cache_info().currsize:
        process = server().process
        assert process.stdin
        process.stdin.close()
        process.wait()


class Process:
    """What subprocess.Popen would be, forked by the server."""

    def __init__(self, **request: Any) -> None:
        with STARTING:
            self.server = server()
        self.returncode: int | None = None
        self.pid: int = self.server.ask({"start": request})

    def poll(self) -> int | None:
        """Exit status, negative for a signal; None while the process runs."""
        if self.returncode is None:
            self.returncode = self.server.ask({"poll": self.pid})
        return self.returncode

    def wait(self, timeout: float) -> int:
        if self.poll() is None:
            descriptor = os.pidfd_open(self.pid)
            ended, *_ = select.select([descriptor], [], [], timeout)
            os.close(descriptor)
            if not ended:
                raise subprocess.TimeoutExpired("trainer", timeout)
        status = self.poll()
        assert status is not None
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


if __name__ == "__main__":
    serve()

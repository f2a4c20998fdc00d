"""`make board`: TensorBoard over the runs of all stacks, for browsers of this machine alone."""

from __future__ import annotations

import errno
import os
import socket

from toolchain.paths import LOCAL, ROOT
from toolchain.runs import records
from toolchain.steps import SetupError, say
from toolchain.tools import venv

LOOPBACK = "127.0.0.1"
PORT = "6006"
LOCK = ROOT / "requirements-board.lock"
PACKAGES = LOCAL / "tensorboard"
EVENTS = "*/runs/*/events.out.tfevents.*"
ANOTHER = "make board PORT=0 takes a free one and shows it"


def board(port: str) -> None:
    """Become TensorBoard on `port`, which reads new runs as they come and ends with Ctrl-C.

    Raises SetupError for a port that is none or is not free.
    """
    ensure_free(number(port))
    program = venv.ensure_beside(PACKAGES, LOCK) / "python"
    if not any(records.models_folder().glob(EVENTS)):
        say("no run has written events yet: each appears here once `make up` trains it")
    os.execv(program, [str(program), *arguments(port)])


def arguments(port: str) -> list[str]:
    """What TensorBoard is given. Its own reader will do for files of some kilobytes: no second process is needed."""
    where = ["--logdir", str(records.models_folder()), "--host", LOOPBACK, "--port", port]
    return ["-m", "tensorboard.main", *where, "--load_fast", "false"]


def number(port: str) -> int:
    """The port that a user has written; 0 for one that is free. Raises SetupError."""
    if port.isascii() and port.isdigit() and int(port) <= 65535:
        return int(port)
    raise SetupError(f"PORT={port} is no port: a number from 0 to 65535", ANOTHER)


def ensure_free(port: int) -> None:
    """Raise SetupError where nobody can listen on `port` of the loopback interface now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise SetupError(f"another program listens on port {port}", ANOTHER) from None
            raise SetupError(f"port {port} cannot be listened on: {error.strerror}", ANOTHER) from None

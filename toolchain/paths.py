"""All paths in one list, so that `clean` knows what it may remove."""

from __future__ import annotations

import os
from pathlib import Path

from infra import agreed

ROOT = Path(__file__).resolve().parent.parent
TOOL_MODULES = ROOT / "toolchain" / "tools" / "go"
COMMAND = ROOT / "toolchain" / "bin" / "trainstack"
STANDINS = ROOT / "standins" / "pulumi_standins" / "bin"

LOCAL = ROOT / agreed.LOCAL
LOGS = LOCAL / "logs"
LINKS = LOCAL / "bin"
STATE = LOCAL / "state"
PASSPHRASE = LOCAL / "passphrase"
STACKS = ROOT / agreed.STACKS
MODELS = ROOT / agreed.MODELS
DATA = ROOT / agreed.DATA
VENV = ROOT / ".venv"

# Shared by all clones on this machine: our engine, and packages that we installed.
_USUAL = Path(agreed.USUAL_MACHINE)
MACHINE = Path(os.environ.get(agreed.MACHINE) or _USUAL)
# Sockets and other files that a reboot may remove.
MACHINE_RUN = Path("/run/trainstack") if MACHINE == _USUAL else MACHINE / "run"


def cache() -> Path:
    """The per-user cache: built tools, base file systems, answers that are kept for a day."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "trainstack"

"""Where things lie: one list, so that `clean` knows what it may remove."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOL_MODULES = ROOT / "toolchain" / "tools" / "go"
COMMAND = ROOT / "toolchain" / "bin" / "trainstack"
STANDINS = ROOT / "standins" / "pulumi_standins" / "bin"

LOCAL = ROOT / ".trainstack"
LOGS = LOCAL / "logs"
LINKS = LOCAL / "bin"
STATE = LOCAL / "state"
PASSPHRASE = LOCAL / "passphrase"
KUBECONFIGS = LOCAL / "kubeconfig"
CLUSTERS = LOCAL / "clusters"
STACKS = ROOT / "stacks"
MODELS = ROOT / "models"
DATA = ROOT / "data"
VENV = ROOT / ".venv"

# Of the machine, not of the clone: our engine, and what we installed.
_USUAL = Path("/var/lib/trainstack")
MACHINE = Path(os.environ.get("TRAINSTACK_MACHINE") or _USUAL)
# Sockets and what else a reboot may take away.
MACHINE_RUN = Path("/run/trainstack") if MACHINE == _USUAL else MACHINE / "run"


def cache() -> Path:
    """The per-user cache: built tools, base file systems, answers worth keeping for a day."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "trainstack"


def usual_kubeconfig(environment: Mapping[str, str] = os.environ) -> Path:
    """The file that reaches a cluster where none is named, as infra/objects/api.py takes it."""
    named = [Path(each) for each in environment.get("KUBECONFIG", "").split(os.pathsep) if each]
    files = named or [Path.home() / ".kube" / "config"]
    return next((each for each in files if each.exists()), files[0])

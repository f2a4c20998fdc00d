"""Hosts whose root lacks CAP_SYS_RESOURCE: detected here, and handled by the OCI runtime beside this file."""

from __future__ import annotations

import shutil
from pathlib import Path

from toolchain.machine.engine.oci_runtime import bounding_set
from toolchain.paths import MACHINE

SOURCE = Path(__file__).with_name("oci_runtime.py")
# A copy, because the engine outlives the clone of the project that started it.
RUNTIME = MACHINE / "oci-runtime"


def detected(status: Path = Path("/proc/self/status")) -> bool:
    """Whether root on this host lacks CAP_SYS_RESOURCE, so that privileged containers need fitting."""
    return "CAP_SYS_RESOURCE" not in bounding_set(status.read_text())


def install() -> None:
    RUNTIME.parent.mkdir(parents=True, exist_ok=True)
    temporary = RUNTIME.with_suffix(".new")
    shutil.copyfile(SOURCE, temporary)
    temporary.chmod(0o755)
    temporary.replace(RUNTIME)

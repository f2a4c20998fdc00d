"""Entry point of `pulumi-resource-pulumi-python`, the launcher of dynamic providers."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_SCRIPT = Path(__file__).with_name("bin") / "pulumi-resource-pulumi-python"


def main() -> None:
    """Become the shell script, which needs no Python of its own: programs bring theirs."""
    os.execv("/bin/sh", ["/bin/sh", str(_SCRIPT), *sys.argv[1:]])

"""Entry point of `pulumi-resource-pulumi-python`, the launcher of dynamic providers."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_SCRIPT = Path(__file__).with_name("bin") / "pulumi-resource-pulumi-python"


def main() -> None:
    """Replace this process by the shell script that starts the provider with the program's Python."""
    os.execv("/bin/sh", ["/bin/sh", str(_SCRIPT), *sys.argv[1:]])

"""A last look at what `pulumi up` made, by the program's own code in the virtual environment."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from typing import Any

from toolchain.operating import environment
from toolchain.paths import ROOT, VENV
from toolchain.steps import SetupError


def inspect(variables: Mapping[str, str], stack: str, outputs: Mapping[str, Any]) -> None:
    """Raises SetupError where objects of `stack` are half gone, or its model is not the one that `outputs` name."""
    done = subprocess.run(
        [str(VENV / "bin" / "python"), "-m", "infra.inspection", stack],
        cwd=ROOT,
        env=environment.full(variables),
        input=json.dumps(outputs),
        stderr=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        raise SetupError(f"`pulumi up` has ended, and the stack is not whole:\n{done.stderr.strip()}")

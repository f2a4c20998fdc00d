"""The host's data folder, which holds verified data sets only."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from toolchain.paths import DATA, ROOT
from toolchain.steps import SetupError, step


def copy_verified(folder: Path) -> str:
    """Have the trainer verify the IDX files in `folder` and copy them to data/; returns the data set's name.

    Raises SetupError that names the file and both checksums when one is not what was published.
    """
    if not folder.is_dir():
        raise SetupError(f"there is no data folder {folder}", "name a folder with the four IDX files")
    with step(f"data from {folder}"):
        cmd = [sys.executable, "-m", "trainer", "data", "copy", str(folder.absolute()), str(DATA)]
        done = subprocess.run(cmd, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SetupError((done.stderr or done.stdout).strip(), f"fetch the file again into {folder}")
    return str(json.loads(done.stdout)["dataset"])

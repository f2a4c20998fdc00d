"""The host's data folder: verified data sets only, copied so that no half file is ever seen."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from toolchain.paths import DATA, ROOT
from toolchain.steps import SetupError, step

FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def take(folder: Path) -> str:
    """Verify the IDX files in `folder`, copy them to data/, and return the data set's name.

    Raises SetupError that names the file and both checksums when one is not what was published.
    """
    if not folder.is_dir():
        raise SetupError(f"there is no data folder {folder}", "name a folder with the four IDX files")
    with step(f"data from {folder}"):
        name = _verify(folder)
        DATA.mkdir(exist_ok=True)
        for stem in FILES:
            source = _file(folder, stem)
            part = DATA / f".{source.name}-{os.getpid()}"
            shutil.copyfile(source, part)
            part.replace(DATA / source.name)
            other = DATA / (stem if source.suffix else f"{stem}.gz")
            other.unlink(missing_ok=True)
    return name


def _file(folder: Path, stem: str) -> Path:
    for name in (stem, f"{stem}.gz"):
        if (folder / name).is_file():
            return folder / name
    raise SetupError(f"{folder} has no {stem} or {stem}.gz", "name a folder with the four IDX files")


def _verify(folder: Path) -> str:
    cmd = [sys.executable, "-m", "trainer", "data", "verify", str(folder)]
    done = subprocess.run(cmd, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SetupError((done.stderr or done.stdout).strip(), f"fetch the file again into {folder}")
    return str(json.loads(done.stdout)["dataset"])

"""A clone without a cluster, for commands that only read what runs have left."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = (
    "Makefile",
    "Pulumi.yaml",
    "pyproject.toml",
    "Dockerfile_training",
    "requirements.lock",
    "requirements-board.lock",
)
# As the trainer writes them; what it imports beside is in the image only, and writes no event.
WRITE_EVENTS = """
import sys
from pathlib import Path
from unittest.mock import MagicMock
sys.modules |= {"torch": MagicMock(), "trainer.evaluation": MagicMock()}
from trainer.journal import EventFile
EventFile(Path(sys.argv[1])).add(int(sys.argv[2]), {"loss": float(sys.argv[3])})
"""


class Clone:
    """The files of the project that `make` needs, with models of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for package in ("infra", "toolchain"):
            shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
        for name in FILES:
            shutil.copy2(ROOT / name, root / name)

    def run_of(self, stack: str, name: str) -> Path:
        """The folder of a new run of `stack`."""
        folder = self.root / "models" / stack / "runs" / name
        folder.mkdir(parents=True)
        return folder

    def write_events(self, folder: Path, step: int, loss: float) -> None:
        command = [sys.executable, "-c", WRITE_EVENTS, str(folder), str(step), str(loss)]
        subprocess.run(command, cwd=ROOT, check=True)

    def making(self, *arguments: str, log: Path) -> subprocess.Popen[bytes]:
        """A `make` that runs in the background, in a process group of its own, and writes to `log`."""
        with log.open("wb") as sink:
            return subprocess.Popen(
                ["make", *arguments, f"PYTHON={sys.executable}"],
                cwd=self.root,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env={name: value for name, value in os.environ.items() if name != "MAKEFLAGS"},
                start_new_session=True,
            )

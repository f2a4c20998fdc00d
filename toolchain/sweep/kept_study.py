"""The study of a search: Optuna's, in an environment of its own, its file beside the runs of the trials."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from toolchain.paths import LOCAL, ROOT
from toolchain.steps import SetupError
from toolchain.sweep.trials import Answer, Observed, Search, Trial
from toolchain.tools import venv

LOCK = ROOT / "requirements-sweep.lock"
PACKAGES = LOCAL / "optuna"
MODULE = "infra.sweep.study"


class KeptStudy:
    """Exchanges with it by a process each: a second of a processor, and nothing is lost with any of them.

    Parameters:
        asked: whose study it is.
        python: that of an environment with Optuna.
    """

    def __init__(self, asked: Search, python: Path) -> None:
        self.asked, self.python = asked, python
        self.last: tuple[str, Answer] | None = None

    def exchange(self, observed: Sequence[Observed], *, proposes: bool) -> Answer:
        """As trials.Study has it. Observations that the last call handed over are left out. Raises SetupError."""
        request = json.dumps(
            {
                **self.asked.study,
                "journal": str(file_of(self.asked)),
                "proposes": proposes,
                "observed": [asdict(each) for each in observed],
            }
        )
        if self.last is None or self.last[0] != request:
            self.last = (request, self._answer(request))
        return self.last[1]

    def _answer(self, request: str) -> Answer:
        command = [str(self.python), "-m", MODULE]
        done = subprocess.run(command, input=request, capture_output=True, text=True, cwd=ROOT)
        if done.returncode:
            ended = f"signal {-done.returncode}" if done.returncode < 0 else f"status {done.returncode}"
            raise SetupError(
                f"the study's process ended with {ended}, and nothing is lost: {done.stderr.strip()[-1000:]}",
                "mend what it says; the same command goes on",
            )
        found: dict[str, Any] = json.loads(done.stdout)
        if found.get("error") == "unreadable":
            file = file_of(self.asked)
            raise SetupError(
                f"the study {file} is no journal of Optuna's: {found['text']}",
                f"move it aside, `mv {file} {file}.old`, and the search begins anew",
            )
        if "error" in found:
            raise SetupError(
                f"search {self.asked.name} was begun with other options, another training, image or data set: "
                "its trials cannot be compared with new ones",
                f"give sweep.name another name; {file_of(self.asked)} is the search that is there",
            )
        return Answer(tuple(Trial(**each) for each in found["trials"]), found["best"])


def file_of(asked: Search) -> Path:
    """The study's file."""
    return asked.folder / f"{asked.name}.journal"


def python() -> Path:
    """A Python with Optuna. Raises SetupError where it cannot be had."""
    return venv.ensure_beside(PACKAGES, LOCK) / "python"

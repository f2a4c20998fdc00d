"""`make sweep`: from the stack file to the best trial, with Optuna's study in its own environment."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, NoReturn

from toolchain import failure, stack_files
from toolchain.machine import locks
from toolchain.operating import environment
from toolchain.paths import LOCAL, MODELS, ROOT
from toolchain.steps import SetupError, say
from toolchain.sweep import rounds, trials
from toolchain.sweep.applied_trials import AppliedTrials
from toolchain.sweep.trials import Answer, Observed, Search, Trial
from toolchain.tools import venv

LOCK = ROOT / "requirements-sweep.lock"
PACKAGES = LOCAL / "optuna"
MODULE = "infra.sweep.study"
FILES = LOCAL / "sweep"
PAUSE_S = 3.0
WORDS = {trials.COMPLETE: "complete", trials.PRUNED: "given up", trials.FAILED: "failed"}
NOTHING = "no trial succeeded, so there is no best trial"


def sweep(stack: str) -> None:
    """Start or continue the search on `stack`, and print the best trial. Raises SetupError."""
    stack_files.check(stack)
    ensure_unprotected(stack)
    asked = search(stack)
    with held(stack):
        make_folder(asked.folder)
        study = KeptStudy(asked, python_with_optuna())
        jobs = AppliedTrials(stack, asked, FILES / f"{stack}.json", lambda: ensure_unprotected(stack))
        say_where_it_stands(asked, study)
        answer = rounds.search(asked, study, jobs, say, lambda: time.sleep(PAUSE_S))
    print("\n".join(conclusion(asked, answer, stack_files.file(stack).relative_to(ROOT))))


def ensure_unprotected(stack: str) -> None:
    """Raises SetupError if `stack` is protected. It may become protected during a search."""
    if environment.is_protected(stack):
        raise SetupError(
            f"stack {stack} is protected: it applies only what was reviewed, and nobody reviews trials",
            "search with an unprotected stack, then copy the best options with `make promote`",
        )


def search(stack: str) -> Search:
    """The search that the stack file asks for. Raises SetupError."""
    with venv.program():
        from infra.config import from_file
        from infra.sweep import search as asked

        found = asked.search(from_file(stack_files.file(stack)))
    return Search(**{**found, "folder": MODELS / stack / found["folder"]})


@contextmanager
def held(stack: str) -> Iterator[None]:
    """Hold the lock for searches on `stack`. Raises SetupError if another search holds it."""

    def refuse(_: IO[str]) -> NoReturn:
        raise SetupError(
            f"another `make sweep` works on stack {stack}",
            "wait until that command has ended, or end it with Ctrl-C",
        )

    with locks.held(FILES / f"{stack}.lock", refuse):
        yield


def make_folder(folder: Path) -> None:
    """Create the folder of studies and trials' runs. Pods write there too. Raises SetupError if that fails."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        if not folder.exists():
            folder.mkdir()
            # Pods are in group 0, as root is. In another user's folder, pods count as "others": they may write, but
            # remove only their own files.
            folder.chmod(0o2775 if os.geteuid() == 0 else 0o1777)
    except OSError as error:
        place = next(each for each in folder.parents if each.exists())
        fix = f"sudo chmod o+w {place}" if error.errno in failure.REFUSED else ""
        raise SetupError(f"{folder} cannot be created: {error.strerror}", fix) from None
    if not os.access(folder, os.W_OK):
        raise SetupError(
            f"this user cannot write into {folder}, the study's folder", f"sudo chmod o+w {folder}"
        )


def say_where_it_stands(asked: Search, study: trials.Study) -> None:
    """Print the progress of an earlier `make sweep`."""
    answer = study.exchange([], proposes=False)
    if answer.trials:
        under_way = len(answer.in_state(trials.RUNNING))
        done = len(answer.trials) - under_way
        say(f"search {asked.name}: {done} of {asked.study['trials']} trials are done, {under_way} under way")


def conclusion(asked: Search, answer: Answer, file: Path) -> list[str]:
    """The number of trials by result, the best trial, and its lines for the stack file `file`."""
    ends = ", ".join(
        f"{len(found)} {word}" for state, word in WORDS.items() if (found := answer.in_state(state))
    )
    first = f"search {asked.name}: {len(answer.trials)} trials: {ends}"
    best = next((each for each in answer.trials if each.number == answer.best), None)
    if best is None or best.objective is None:
        return [first, NOTHING]
    written = {**asked.replaced, **best.values}
    values = [f"      {key.rpartition('.')[2]}: {json.dumps(written[key])}" for key in sorted(written)]
    return [
        first,
        f"best: trial {best.number}, run {best.run}",
        f"{asked.objective}={best.objective:.4f}",
        f"to train with these options, write into {file}:",
        "  trainstack:job:",
        "    training:",
        *values,
    ]


class KeptStudy:
    """Runs each exchange with the study in a new process, for a second of CPU. If that is killed, nothing is lost.

    Parameters:
        asked: the search.
        python: the Python of an environment with Optuna.
    """

    def __init__(self, asked: Search, python: Path) -> None:
        self.asked, self.python = asked, python
        self.last: tuple[str, Answer] | None = None

    def exchange(self, observed: Sequence[Observed], *, proposes: bool) -> Answer:
        """As in trials.Study. The same request as last time is not sent again. Raises SetupError."""
        request = json.dumps(
            {
                **self.asked.study,
                "journal": str(study_file(self.asked)),
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
                f"the study's process ended with {ended}, but nothing is lost: {done.stderr.strip()[-1000:]}",
                "fix that error, then run the same command to continue",
            )
        found: dict[str, Any] = json.loads(done.stdout)
        if found.get("error") == "unreadable":
            file = study_file(self.asked)
            raise SetupError(
                f"the study {file} is not a journal of Optuna: {found['text']}",
                f"rename that file: `mv {file} {file}.old`; then the search begins again, without its earlier trials",
            )
        if "error" in found:
            raise SetupError(
                f"search {self.asked.name} began with other options, or another training, image or data set: "
                "its trials cannot be compared with new ones",
                f"change sweep.name; the existing search stays in {study_file(self.asked)}",
            )
        return Answer(tuple(Trial(**each) for each in found["trials"]), found["best"])


def study_file(asked: Search) -> Path:
    """The study's file."""
    return asked.folder / f"{asked.name}.journal"


def python_with_optuna() -> Path:
    """A Python with Optuna. Raises SetupError if it cannot be installed."""
    return venv.ensure_beside(PACKAGES, LOCK) / "python"

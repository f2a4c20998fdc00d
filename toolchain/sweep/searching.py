"""`make sweep`: from the stack file to the best trial, with Optuna's study in an environment of its own."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from toolchain import stack_files
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
NOTHING = "no trial has come to its end, so none is the best"


def sweep(stack: str) -> None:
    """Search on `stack`, or go on with it, and print the best trial. Raises SetupError."""
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
    """Raises SetupError where `stack` is protected. It may become so while a search is on."""
    if environment.is_protected(stack):
        raise SetupError(
            f"stack {stack} is protected: only what was reviewed is applied, and nobody reviews trials",
            "search with a stack that is not, and take the best options to this one by `make promote`",
        )


def search(stack: str) -> Search:
    """What the stack file asks for. Raises SetupError."""
    with venv.program():
        from infra.config import from_file
        from infra.sweep import search as asked

        found = asked.search(from_file(stack_files.file(stack)))
    return Search(**{**found, "folder": MODELS / stack / found["folder"]})


@contextmanager
def held(stack: str) -> Iterator[None]:
    """Be the only search on `stack`. Raises SetupError where another one is."""
    FILES.mkdir(parents=True, exist_ok=True)
    with (FILES / f"{stack}.lock").open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SetupError(
                f"another `make sweep` works on stack {stack}", "wait for it, or end it with Ctrl-C"
            ) from None
        yield


def make_folder(folder: Path) -> None:
    """Make the folder of studies and trials' runs, in which pods write, too. Raises SetupError where it cannot be."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        if not folder.exists():
            folder.mkdir()
            # Pods are in group 0, as root is. Of anybody else's folder they are others: these may write, and
            # remove nothing that is not theirs.
            folder.chmod(0o2775 if os.geteuid() == 0 else 0o1777)
    except OSError as error:
        fix = f"sudo chmod o+w {folder.parent}"
        raise SetupError(f"{folder} cannot be made: {error.strerror}", fix) from None
    if not os.access(folder, os.W_OK):
        raise SetupError(f"{folder} cannot be written, and is to keep the study", f"sudo chmod o+w {folder}")


def say_where_it_stands(asked: Search, study: trials.Study) -> None:
    """Say what an earlier `make sweep` has left to do."""
    answer = study.exchange([], proposes=False)
    if answer.trials:
        under_way = len(answer.in_state(trials.RUNNING))
        done = len(answer.trials) - under_way
        say(f"search {asked.name}: {done} of {asked.study['trials']} trials are done, {under_way} under way")


def conclusion(asked: Search, answer: Answer, file: Path) -> list[str]:
    """How many trials ended how, the best of them, and what to write for it into the stack file `file`."""
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
        f"to train with it, write into {file}:",
        "  trainstack:job:",
        "    training:",
        *values,
    ]


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
                f"the study's process ended with {ended}, and nothing is lost: {done.stderr.strip()[-1000:]}",
                "mend what it says; the same command goes on",
            )
        found: dict[str, Any] = json.loads(done.stdout)
        if found.get("error") == "unreadable":
            file = study_file(self.asked)
            raise SetupError(
                f"the study {file} is no journal of Optuna's: {found['text']}",
                f"move it aside, `mv {file} {file}.old`, and the search begins anew",
            )
        if "error" in found:
            raise SetupError(
                f"search {self.asked.name} was begun with other options, another training, image or data set: "
                "its trials cannot be compared with new ones",
                f"give sweep.name another name; {study_file(self.asked)} is the search that is there",
            )
        return Answer(tuple(Trial(**each) for each in found["trials"]), found["best"])


def study_file(asked: Search) -> Path:
    """The study's file."""
    return asked.folder / f"{asked.name}.journal"


def python_with_optuna() -> Path:
    """A Python with Optuna. Raises SetupError where it cannot be had."""
    return venv.ensure_beside(PACKAGES, LOCK) / "python"

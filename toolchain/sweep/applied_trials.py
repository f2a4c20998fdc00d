"""The trials' jobs in the stack: the program gets them by a file, and the stack file stays as it is."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from infra import agreed
from infra.atomic_file import write_whole
from infra.objects import labels
from toolchain.operating import environment, live_objects, pulumi_cli, setup, state, status, up
from toolchain.steps import SetupError
from toolchain.sweep.trials import TAKEN_DOWN, Search, Trial

LINES = 5


class AppliedTrials:
    """Jobs of one stack, by `make up` at first and by `pulumi up` alone then.

    Parameters:
        name: of the stack.
        asked: the search.
        file: where the trials are written down for the program.
        ensure_unprotected: called before anything is applied.
    """

    def __init__(self, name: str, asked: Search, file: Path, ensure_unprotected: Callable[[], None]) -> None:
        self.name, self.asked, self.file, self.ensure_unprotected = name, asked, file, ensure_unprotected
        self.is_up = False
        self._known: state.Deployment | None = None  # a backend of the user's takes a second for each export

    def submit(self, trials: Sequence[Trial]) -> None:
        """Have the stack hold jobs for these trials, and for no others. Raises SetupError."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        told = {
            "stack": self.name,
            "job": self.asked.job,
            "identity": self.asked.study["identity"],
            "trials": [each.proposal() for each in trials],
        }
        write_whole(self.file, json.dumps(told))
        os.environ[agreed.TRIALS] = str(self.file)
        self._known = None
        if self.is_up:
            self._known = up.update_again(self.name, self.ensure_unprotected)
        else:
            up.up(self.name, None, lambda _: self.ensure_unprotected)
            self.is_up = True

    def bring_back(self, trials: Sequence[Trial]) -> None:
        """As `submit`, by `make up`, which starts engine and nodes. Raises SetupError where the stack is down."""
        with setup.project_lock():  # a `make down` that is under way ends first
            is_down = self.is_down()
        if is_down:
            raise SetupError(*TAKEN_DOWN)
        self.is_up = False
        self.submit(trials)

    def is_down(self) -> bool:
        """Whether the stack's state holds nothing."""
        self._known = None
        return not state.has_resources(self._state())

    def runs(self) -> Mapping[str, str]:
        """Job -> its run, of the trials in the stack's state."""
        found = {}
        for _, metadata in state.jobs(self._state(), "inputs"):
            name, run = str(metadata.get("name")), (metadata.get("labels") or {}).get(labels.RUN)
            if name.startswith(self.asked.job) and run:
                found[name] = str(run)
        return found

    def conditions(self) -> Mapping[str, str] | None:
        """Job -> its condition; None where the API server cannot be asked."""
        done = self._kubectl("get", self.asked.resource, "--output", "json")
        if done is None or done.returncode:
            return None
        return {
            each["metadata"]["name"]: (status.job_conditions(each) or ["Pending"])[-1]
            for each in json.loads(done.stdout)["items"]
        }

    def last_lines(self, run: str) -> list[str]:
        """What the pods of `run` have said last; nothing where they are gone."""
        chosen = ("--selector", f"{labels.RUN}={run}", "--tail", str(LINES), "--prefix")
        done = self._kubectl("logs", *chosen)
        return done.stdout.splitlines() if done else []

    def _kubectl(self, *words: str) -> subprocess.CompletedProcess[str] | None:
        access = state.access(self._state())
        if access is None:
            return None
        variables = environment.for_stack(environment.load() or {}, self.name)
        return live_objects.kubectl(variables, access, *words, "--namespace", self.asked.namespace)

    def _state(self) -> state.Deployment:
        """The stack's state as the last update has left it, read once."""
        if self._known is None:
            variables = environment.for_stack(environment.load() or {}, self.name)
            self._known = pulumi_cli.deployment(variables, self.name)
        return self._known

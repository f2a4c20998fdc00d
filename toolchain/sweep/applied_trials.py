"""The trials' jobs in the stack. The Pulumi program reads the trials from a file; the stack file stays unchanged."""

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
    """Jobs of one stack, applied by `make up` first, then by `pulumi up` alone.

    Parameters:
        name: the stack's name.
        asked: the search.
        file: the file with the trials for the Pulumi program.
        ensure_unprotected: called before each change.
    """

    def __init__(self, name: str, asked: Search, file: Path, ensure_unprotected: Callable[[], None]) -> None:
        self.name, self.asked, self.file, self.ensure_unprotected = name, asked, file, ensure_unprotected
        self.is_up = False
        self._known: state.Deployment | None = None  # each export from the user's own backend takes a second

    def submit(self, trials: Sequence[Trial]) -> None:
        """Let the stack have jobs for exactly these trials. Raises SetupError."""
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
        """As `submit`, with `make up`, which starts engine and nodes. Raises SetupError if the stack is down."""
        with setup.project_lock():  # a running `make down` ends first
            is_down = self.is_down()
        if is_down:
            raise SetupError(*TAKEN_DOWN)
        self.is_up = False
        self.submit(trials)

    def is_down(self) -> bool:
        """Whether the stack's state has no resources."""
        self._known = None
        return not state.has_resources(self._state())

    def runs(self) -> Mapping[str, str]:
        """Job -> its run, for the trials in the stack's state."""
        found = {}
        for _, metadata in state.jobs(self._state(), "inputs"):
            name, run = str(metadata.get("name")), (metadata.get("labels") or {}).get(labels.RUN)
            if name.startswith(self.asked.job) and run:
                found[name] = str(run)
        return found

    def conditions(self) -> Mapping[str, str] | None:
        """Job -> its condition; None if the API server does not answer."""
        done = self._kubectl("get", self.asked.resource, "--output", "json")
        if done is None or done.returncode:
            return None
        return {
            each["metadata"]["name"]: (status.job_conditions(each) or ["Pending"])[-1]
            for each in json.loads(done.stdout)["items"]
        }

    def last_lines(self, run: str) -> list[str]:
        """The last log lines of the pods of `run`; none if the pods are gone."""
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
        """The stack's state after the last update, read once."""
        if self._known is None:
            variables = environment.for_stack(environment.load() or {}, self.name)
            self._known = pulumi_cli.deployment(variables, self.name)
        return self._known

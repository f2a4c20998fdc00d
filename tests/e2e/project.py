"""A clone of this project in a folder of its own, driven by the README's commands as a user would."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import yaml

from infra.config.operator import OperatorApi
from infra.objects.job_kinds import OF_API, SHARED
from infra.run import job_status
from infra.run.job_api import JOBSET_UID
from infra.trainer_controller.patches import JOBSET, TRAINER
from tests.e2e import processes
from toolchain.__main__ import TAKEN

ROOT = Path(__file__).resolve().parents[2]
JOB_LABEL = "training.kubeflow.org/job-name"


@dataclass
class Project:
    """One clone with one stack; every command runs in its folder."""

    phase_times: ClassVar[list[str]] = []
    """The phases' times that each `make up` printed; the session's summary shows them."""

    root: Path
    cluster: str
    stack: str = "dev"
    data: tuple[str, ...] = ()
    """`DATA_DIR=…` for `make up` where a real data set is at hand."""
    logs: Path | None = None
    """Where `making` writes what it says; below .trainstack by default."""
    _environment: dict[str, str] = field(default_factory=dict)
    _closing: dict[str, str] = field(default_factory=dict)
    _standing: Any = None
    """The configuration of the last `make up`."""

    @property
    def stack_file(self) -> Path:
        return self.root / "stacks" / f"Pulumi.{self.stack}.yaml"

    @property
    def api(self) -> OperatorApi:
        """What the jobs of the stack file are written for."""
        return OperatorApi(self._operator().get("api", OperatorApi.V1))

    @property
    def has_kueue(self) -> bool:
        """Whether the stack installs Kueue."""
        return bool(self._operator().get("queue"))

    def _operator(self) -> dict[str, Any]:
        return dict((self.config() or {}).get("trainstack:operator") or {})

    @property
    def models(self) -> Path:
        return self.root / "models" / self.stack

    def configure(self, sections: dict[str, dict[str, Any]]) -> None:
        """Merge `sections` into the stack file."""
        settings = yaml.safe_load(self.stack_file.read_text()) or {}
        settings.pop("encryptionsalt", None)  # of the clone that this one was copied from
        for section, values in sections.items():
            settings.setdefault("config", {}).setdefault(section, {}).update(values)
        self.stack_file.write_text(yaml.safe_dump(settings, sort_keys=False))

    def commit(self, message: str) -> None:
        """Commit everything that git sees."""
        git = ["git", "-c", "user.name=test", "-c", "user.email=test@localhost"]
        for words in (["add", "--all"], ["commit", "--quiet", "--allow-empty", "--message", message]):
            subprocess.run([*git, *words], cwd=self.root, check=True)

    def words(self, *command: str) -> list[str]:
        """The command line that runs `command` where the clone's engine is."""
        return list(command)

    def make(self, *arguments: str, timeout: float = 1800) -> subprocess.CompletedProcess[str]:
        """`make <arguments>`; both outputs in `stdout`, also shown as they come (pytest -s)."""
        return subprocess.run(
            self.words("make", *arguments, *self._stack_of(arguments)),
            cwd=self.root,
            env=clean_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=timeout,
        )

    def _stack_of(self, arguments: tuple[str, ...]) -> list[str]:
        """This stack as make's variable, where a target takes one."""
        goals = [each for each in arguments if each in TAKEN]
        return [f"STACK={self.stack}"] if any("STACK" in TAKEN[goal] for goal in goals) else []

    @contextmanager
    def making(self, *arguments: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
        """`make <arguments>` in a session of its own, killed with all its processes when the block ends.

        Parameters:
            log: the file for both outputs.
        """
        log.parent.mkdir(exist_ok=True)
        with log.open("wb") as output:
            process = subprocess.Popen(
                self.words("make", *arguments, *self._stack_of(arguments)),
                cwd=self.root,
                env=clean_environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            try:
                yield process
            finally:
                processes.kill(process)

    def up(self, *arguments: str, timeout: float = 1800) -> dict[str, str]:
        """`make up`, which must succeed; returns its closing lines and keeps all output under `output`."""
        done = self.make("up", *arguments, timeout=timeout)
        self._environment = {}  # the stack file may name another cluster
        assert done.returncode == 0, f"make up failed:\n{done.stdout}"
        return self.brought_up(done.stdout, *arguments)

    def brought_up(self, output: str, *arguments: str) -> dict[str, str]:
        """The closing lines of a `make up` that has succeeded with this output; the stack stands from now on."""
        self.phase_times.append(f"make up {' '.join(arguments)} on cluster {self.cluster}")
        self.phase_times.extend(re.findall(r"^took .*$", output, re.MULTILINE))
        self._standing = self.config()
        self._closing = {**closing_lines(output), "output": output}
        return self._closing

    def stand_up(self) -> dict[str, str]:
        """The stack as it is committed, up, with its job done; returns the closing lines of its last `make up`.

        Brings it up where a test has left it otherwise, whatever that test was about.
        """
        as_committed = self.changed_files() == "" and self._standing == self.config()
        if self._closing and as_committed and not self.is_locked() and self._has_succeeded():
            return self._closing
        for command in (["checkout", "--quiet", "--", "."], ["clean", "--quiet", "--force", "-d", "stacks"]):
            subprocess.run(["git", *command], cwd=self.root, check=True)
        return self.up(*self.data)

    def is_locked(self) -> bool:
        """Whether a command works on a stack of this clone, or was killed while it did."""
        return any((self.root / ".trainstack" / "state" / ".pulumi" / "locks").rglob("*.json"))

    def take_data_away(self) -> bool:
        """Remove the data set that `make up` has copied here; returns whether there was one."""
        there = [file for file in (self.root / "data").glob("*") if file.is_file()]
        for file in there:
            file.unlink()
        self.data = ()
        return bool(there)

    def config(self) -> Any:
        """The configuration of the stack file; None if it has none."""
        return (yaml.safe_load(self.stack_file.read_text()) or {}).get("config")

    def _has_succeeded(self) -> bool:
        asked = ("kubectl", "get", OF_API[self.api].resource, "--namespace", "kubeflow", "--output", "json")
        done = self.run(*asked, check=False)
        jobs = json.loads(done.stdout)["items"] if done.returncode == 0 else []
        found = [(each["metadata"]["name"], job_status.condition(each)[0]) for each in jobs]
        return found == [("pytorch-simple", job_status.SUCCEEDED)]

    def environment(self) -> dict[str, str]:
        """The variables of a shell after `eval "$(make -s env)"`."""
        if self._environment:
            return self._environment
        script = f'eval "$(make -s env STACK={self.stack})" && env -0'
        done = subprocess.run(
            self.words("bash", "-c", script),
            cwd=self.root,
            env=clean_environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        pairs = (line.partition("=") for line in done.stdout.split("\0") if line)
        found = {name: value for name, _, value in pairs}
        if (self.root / ".trainstack" / "env.json").exists():  # else set-up has more to tell later
            self._environment = found
        return found

    def run(
        self, *command: str, check: bool = True, timeout: float = 600
    ) -> subprocess.CompletedProcess[str]:
        """A command in the shell that `make env` gives."""
        environment = self.environment()
        program = shutil.which(command[0], path=environment["PATH"])
        assert program, f"{command[0]} is not on the PATH of `make env`"
        done = subprocess.run(
            self.words(program, *command[1:]),
            cwd=self.root,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
        )
        assert not check or done.returncode == 0, (
            f"`{' '.join(command)}` exited {done.returncode}:\n{done.stdout}{done.stderr}"
        )
        return done

    def outputs(self) -> dict[str, Any]:
        done = self.run("pulumi", "stack", "output", "--json", "--show-secrets", "--stack", self.stack)
        return dict(json.loads(done.stdout))

    def get(self, kind: str, name: str = "", namespace: str = "kubeflow") -> dict[str, Any]:
        words = ["kubectl", "get", kind, *filter(None, [name]), "--namespace", namespace, "--output", "json"]
        return dict(json.loads(self.run(*words).stdout))

    def changed_files(self) -> str:
        done = subprocess.run(["git", "status", "--porcelain"], cwd=self.root, capture_output=True, text=True)
        return done.stdout

    @property
    def has_cluster(self) -> bool:
        """Whether its kubeconfig is there; before its set-up nobody knows where."""
        kubeconfig = self.environment().get("KUBECONFIG")
        return kubeconfig is not None and Path(kubeconfig).exists()

    def dump(self) -> str:
        """Events, descriptions and logs, for a failure's report."""
        in_cluster = [
            "kubectl get pods,pvc,pv --all-namespaces --output wide",
            *(f"kubectl describe {each.resource} --namespace kubeflow" for each in SHARED),
            "kubectl get events --all-namespaces --sort-by .lastTimestamp",
            "kubectl describe pods --namespace kubeflow",
            f"kubectl logs --namespace kubeflow --selector {JOB_LABEL} --all-containers --tail 50 --prefix",
            f"kubectl logs --namespace kubeflow --selector {JOBSET_UID} --all-containers --tail 50 --prefix",
            *(
                f"kubectl logs --namespace kubeflow deployment/{name} --tail 50"
                for name in ("training-operator", TRAINER, JOBSET)
            ),
        ]
        parts = []
        for command in [*(in_cluster if self.has_cluster else []), "docker ps --all"]:
            try:
                done = self.run(*command.split(), check=False, timeout=120)
                said = f"{done.stdout[-8000:]}{done.stderr[-2000:]}"
            except (AssertionError, subprocess.SubprocessError) as error:  # a report must not fail itself
                said = f"{error}\n"
            parts.append(f"$ {command}\n{said}")
        return "\n".join(parts)


def clean_environment() -> dict[str, str]:
    """This process's environment without what an outer `make test` has set for its own clone."""
    ours = ("PULUMI_", "TRAINSTACK_", "KUBECONFIG", "MAKE", "MFLAGS", "STACK", "DATA_DIR")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def closing_lines(output: str) -> dict[str, str]:
    """`job`, `model`, `accuracy` and `loss` from the last four lines of `make up`."""
    lines = [line for line in output.splitlines() if line.strip()][-4:]
    found: dict[str, str] = {}
    for line, name in zip(lines, ("job", "model", "accuracy", "loss"), strict=True):
        separator = ":" if name in ("job", "model") else "="
        key, _, value = line.partition(separator)
        assert key == name, f"expected a line for {name}, got {line!r} in:\n" + "\n".join(lines)
        found[name] = value.strip()
    return found

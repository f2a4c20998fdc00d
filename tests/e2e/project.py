"""A clone of this project in a folder of its own, driven by the README's commands as a user would."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]

phase_times: list[str] = []
"""The phases' times that each `make up` of this session printed; the summary shows them."""


def clone(target: Path, cluster: str, stack: str = "dev") -> Project:
    """Clone the working tree as it is, uncommitted changes included, with a cluster name of its own."""
    git = ["git", "-c", "user.name=test", "-c", "user.email=test@localhost"]
    subprocess.run([*git, "clone", "--quiet", "--no-hardlinks", str(ROOT), str(target)], check=True)
    listed = subprocess.run(
        [*git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        source, copy = ROOT / name, target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.exists():
            shutil.copy2(source, copy)
        else:
            copy.unlink(missing_ok=True)
    project = Project(target, cluster, stack)
    project.configure({"trainstack:cluster": {"name": cluster}})
    subprocess.run([*git, "add", "--all"], cwd=target, check=True)
    subprocess.run([*git, "commit", "--quiet", "--message", "as tested"], cwd=target, check=True)
    return project


@contextmanager
def temporary(folder: Path, name: str) -> Iterator[Project]:
    """A clone below `folder` whose cluster is `<name>-<random>`, taken down at the end."""
    project = clone(folder / "trainstack", f"{name}-{uuid.uuid4().hex[:6]}")
    try:
        yield project
    finally:
        project.make("down")


@dataclass
class Project:
    """One clone with one stack; every command runs in its folder."""

    root: Path
    cluster: str
    stack: str = "dev"
    _environment: dict[str, str] = field(default_factory=dict)

    @property
    def stack_file(self) -> Path:
        return self.root / "stacks" / f"Pulumi.{self.stack}.yaml"

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

    def make(self, *arguments: str, timeout: float = 1800) -> subprocess.CompletedProcess[str]:
        """`make <arguments>`; both outputs in `stdout`, also shown as they come (pytest -s)."""
        command = ["make", *arguments, f"STACK={self.stack}"]
        return subprocess.run(
            command,
            cwd=self.root,
            env=clean_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=timeout,
        )

    def up(self, *arguments: str, timeout: float = 1800) -> dict[str, str]:
        """`make up`, which must succeed; returns its closing lines and keeps all output under `output`."""
        done = self.make("up", *arguments, timeout=timeout)
        assert done.returncode == 0, f"make up failed:\n{done.stdout}"
        phase_times.append(f"make up {' '.join(arguments)} on cluster {self.cluster}")
        phase_times.extend(re.findall(r"^ +\d+\.\d s  .*$", done.stdout, re.MULTILINE))
        return {**closing_lines(done.stdout), "output": done.stdout}

    def environment(self) -> dict[str, str]:
        """The variables of a shell after `eval "$(make -s env)"`."""
        if not self._environment:
            script = f'eval "$(make -s env STACK={self.stack})" && env -0'
            done = subprocess.run(
                ["bash", "-c", script],
                cwd=self.root,
                env=clean_environment(),
                capture_output=True,
                text=True,
                check=True,
            )
            pairs = (line.partition("=") for line in done.stdout.split("\0") if line)
            self._environment = {name: value for name, _, value in pairs}
        return self._environment

    def run(
        self, *command: str, check: bool = True, timeout: float = 600
    ) -> subprocess.CompletedProcess[str]:
        """A command in the shell that `make env` gives."""
        environment = self.environment()
        program = shutil.which(command[0], path=environment["PATH"])
        assert program, f"{command[0]} is not on the PATH of `make env`"
        done = subprocess.run(
            [program, *command[1:]],
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

    def dump(self) -> str:
        """Events, descriptions and logs, for a failure's report."""
        commands = [
            "kubectl get pods,pytorchjobs,pvc,pv --all-namespaces --output wide",
            "kubectl get events --all-namespaces --sort-by .lastTimestamp",
            "kubectl describe pods --namespace kubeflow",
            "kubectl logs --namespace kubeflow --selector training.kubeflow.org/job-name --tail 50 --prefix",
            "kubectl logs --namespace kubeflow deployment/training-operator --tail 50",
        ]
        parts = []
        for command in commands:
            done = self.run(*command.split(), check=False, timeout=60)
            parts.append(f"$ {command}\n{done.stdout[-8000:]}{done.stderr[-2000:]}")
        return "\n".join(parts)


def clean_environment() -> dict[str, str]:
    """This process's environment without what an outer `make test` has set for its own clone."""
    ours = ("PULUMI_", "TRAINSTACK_", "KUBECONFIG", "VIRTUAL_ENV", "MAKE", "MFLAGS", "STACK", "DATA_DIR")
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

"""This project's program, previewed by the real engine in a folder of its own; no cluster is needed."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import tempfile
import uuid
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.waiting import HANG_S

ROOT = Path(__file__).resolve().parents[2]
# The component that every program's resources hang on; Pulumi registers it before the program runs.
# The stack itself, and the provider of the engine that reads the stack's state: neither makes anything.
UNCOUNTED = ("pulumi:pulumi:Stack", "pulumi:providers:pulumi")
ABSENT = "trainstack-absent"
"""A kind cluster that nobody makes: the program is this clone's, and would look into one that stands."""


@functools.cache
def _begun(stack: str) -> tempfile.TemporaryDirectory[str]:
    """The state and the stack file of a new stack, made once for each name: Pulumi takes a second for it."""
    made = tempfile.TemporaryDirectory(prefix="trainstack-preview-")
    folder = Path(made.name)
    for name in ("state", "stacks"):
        (folder / name).mkdir()
    shutil.copy2(ROOT / "Pulumi.yaml", folder)
    words = ["pulumi", "stack", "init", stack, "--non-interactive"]
    subprocess.run(words, cwd=folder, env=environment(folder), capture_output=True, check=True)
    return made


def environment(folder: Path) -> dict[str, str]:
    """Of a Pulumi whose state is in `folder`."""
    own = {
        name: value for name, value in os.environ.items() if not name.startswith(("PULUMI_CONFIG", "KUBE"))
    }
    return {
        **own,
        "PULUMI_BACKEND_URL": f"{(folder / 'state').as_uri()}?metadata=skip",
        "PULUMI_CONFIG_PASSPHRASE": "test",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DEBUG_COMMANDS": "true",  # for --event-log
    }


def pulumi(folder: Path, variables: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    """A command of Pulumi's in `folder`; both outputs are in `stdout`."""
    return subprocess.run(
        ["pulumi", *words, "--non-interactive", "--color=never"],
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=HANG_S,
    )


@dataclass(frozen=True)
class Preview:
    """How a preview ended.

    `errors` are the engine's error messages, `registered` the types of what it was about to make, `inputs` for each of
    them its type and what is known of its inputs.
    """

    status: int
    shown: str
    errors: list[str]
    registered: list[str]
    inputs: list[tuple[str, dict[str, Any]]]


class Project:
    """Pulumi.yaml and the program of this clone, with a state and a stack file of the test's own."""

    def __init__(self, folder: Path, stack: str = "dev") -> None:
        self.stack = stack
        self.folder = folder / "project"
        begun = Path(_begun(stack).name)
        shutil.copytree(begun / "stacks", self.folder / "stacks")
        shutil.copytree(begun / "state", folder / "state")
        shutil.copy2(ROOT / "Pulumi.yaml", self.folder)
        (self.folder / "infra").symlink_to(ROOT / "infra")
        self.stack_file = self.folder / "stacks" / f"Pulumi.{stack}.yaml"
        self.environment = {**environment(folder), "KUBECONFIG": str(folder / "no-kubeconfig")}
        self._salt = yaml.safe_load(self.stack_file.read_text())

    def pulumi(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return pulumi(self.folder, self.environment, *arguments)

    def configure(self, sections: dict[str, Any]) -> None:
        """Write the stack file, as a user would. What `sections` says is `secure` is really encrypted."""
        config = {f"trainstack:{name}": self._encrypted(value) for name, value in sections.items()}
        self.stack_file.write_text(yaml.safe_dump({"config": config, **self._salt}, sort_keys=False))

    def _encrypted(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._encrypted(each) for each in value]
        if not isinstance(value, dict):
            return value
        if value.keys() == {"secure"}:
            return {"secure": self.ciphertext}
        return {key: self._encrypted(each) for key, each in value.items()}

    @cached_property
    def ciphertext(self) -> str:
        """A word that this stack's passphrase decrypts: Pulumi starts no program that it cannot."""
        self.stack_file.write_text(yaml.safe_dump(self._salt))
        # Pulumi masks it wherever it is printed, so it must be in no message.
        word = uuid.uuid4().hex
        done = self.pulumi("config", "set", "--secret", "word", word, "--stack", self.stack)
        assert done.returncode == 0, done.stdout
        return str(yaml.safe_load(self.stack_file.read_text())["config"]["trainstack:word"]["secure"])

    def preview(self) -> Preview:
        log = self.folder / "events.json"
        log.unlink(missing_ok=True)
        done = self.pulumi("preview", "--stack", self.stack, "--event-log", str(log))
        events = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        inputs = _inputs(events)
        return Preview(done.returncode, done.stdout, _errors(events), [type_ for type_, _ in inputs], inputs)

    def deployment(self) -> dict[str, Any]:
        """The stack's state."""
        exported = json.loads(self.pulumi("stack", "export", "--stack", self.stack).stdout)
        return dict(exported["deployment"])

    def state(self) -> list[str]:
        """Types of the resources in the stack's state."""
        return [resource["type"] for resource in self.deployment().get("resources") or []]


def _errors(events: list[dict[str, Any]]) -> list[str]:
    told = [event["diagnosticEvent"] for event in events if "diagnosticEvent" in event]
    return [each["message"] for each in told if each["severity"] == "error"]


def _inputs(events: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    steps = [event["resourcePreEvent"]["metadata"] for event in events if "resourcePreEvent" in event]
    return [
        (step["type"], (step["new"] or {}).get("inputs") or {})
        for step in steps
        if step["type"] not in UNCOUNTED
    ]

"""A throw-away Pulumi project that the real CLI runs with our plugins."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
STACK = "g"
BIN = ROOT / "standins" / "pulumi_standins" / "bin"


class CommandError(Exception):
    """A command of the CLI failed; `output` is what it printed."""

    def __init__(self, command: list[str], output: str) -> None:
        super().__init__(f"{' '.join(command)} failed:\n{output}")
        self.output = output


class Project:
    """Folder, state and stack of one test.

    Parameters:
        folder: an empty folder.
        kubeconfig: the cluster, which programs find as `kubeconfig.yaml` beside them.
        like: a project whose stack has not been used; a copy of it takes less time than another one.
    """

    def __init__(
        self, folder: Path, kubeconfig: Path, *, name: str = "golden", like: Project | None = None
    ) -> None:
        self.folder = folder / "project"
        self.folder.mkdir()
        state, home = folder / "state", folder / "home"
        home.mkdir(exist_ok=True)
        (home / "logs").touch()  # a file: so Pulumi keeps no log of each call, as in a clone
        self._name = name
        self.use_virtualenv(Path(sys.prefix))
        (self.folder / "kubeconfig.yaml").write_text(kubeconfig.read_text())
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("PULUMI_", "KUBE"))},
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "PULUMI_STANDINS_PYTHON": sys.executable,
            "PULUMI_BACKEND_URL": f"{state.as_uri()}?metadata=skip",  # as a clone's own backend
            "PULUMI_CONFIG_PASSPHRASE": "test",
            "PULUMI_HOME": str(home),
            "PULUMI_STACK": STACK,
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_AUTOMATION_API_SKIP_VERSION_CHECK": "true",
            "KUBECONFIG": str(kubeconfig),
        }
        if like is None:
            state.mkdir()
            self.pulumi("stack", "init", STACK)
        else:
            shutil.copytree(like.folder.parent / "state", state)
            shutil.copy2(like.folder / f"Pulumi.{STACK}.yaml", self.folder)

    def use_virtualenv(self, environment: Path) -> None:
        """Set the virtual environment that programs run in; at first it is the one of the tests."""
        runtime = {"name": "python", "options": {"toolchain": "pip", "virtualenv": str(environment)}}
        (self.folder / "Pulumi.yaml").write_text(yaml.safe_dump({"name": self._name, "runtime": runtime}))

    def write(self, program: str) -> None:
        """Set the program."""
        (self.folder / "__main__.py").write_text(program)

    def pulumi(self, *arguments: str, seconds: float = 1800, **variables: str) -> str:
        """Run the CLI; returns what it printed, raises CommandError when it fails."""
        command = ["pulumi", *arguments, "--non-interactive", "--color=never"]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**self.environment, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
        if done.returncode:
            raise CommandError(command, done.stdout)
        return done.stdout

    def configure(self, key: str, value: str) -> None:
        """Set a configuration value."""
        self.pulumi("config", "set", key, value)

    def up(self, *arguments: str, seconds: float = 240, **variables: str) -> str:
        """Update without a preview."""
        return self.pulumi("up", "--yes", "--skip-preview", *arguments, seconds=seconds, **variables)

    def preview(self, *arguments: str) -> list[dict[str, Any]]:
        """The steps of a preview."""
        output = self.pulumi("preview", "--json", *arguments)
        steps: list[dict[str, Any]] = json.loads(output[output.index("{\n") :]).get("steps", [])
        return steps

    def refresh(self) -> str:
        """Refresh the state."""
        return self.pulumi("refresh", "--yes", "--skip-preview")

    def destroy(self) -> str:
        """Delete everything in the stack."""
        return self.pulumi("destroy", "--yes", "--skip-preview")

    def state(self) -> dict[str, dict[str, Any]]:
        """The resources in the state, by the name the program gave them."""
        exported = json.loads(self.pulumi("stack", "export", "--show-secrets"))
        resources = exported["deployment"].get("resources") or []
        return {resource["urn"].split("::")[-1]: resource for resource in resources}

"""The whole program of this clone, applied by the real Pulumi to an API server, in a folder of its own."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

from kubernetes import client, config

from tests.matrix.played_operator import GROUP, PLURAL, VERSION
from tests.preview.project import Project

STACK = "matrix"
# Far more than any update takes, in seconds: a deletion that waits for ever shall not.
UP_S = 900
# The test server has no operator, no registry and no file that a job could leave.
BASE: dict[str, dict[str, Any]] = {
    "cluster": {"kind": "existing"},
    "operator": {"install": "never"},
    "storage": {"prepare": False},
    "image": {"reference": "localhost:5000/trainer:1", "unpinned": True},
    "job": {"name": "mnist", "model": None},
}


class UpError(Exception):
    """An update failed; the text is what Pulumi printed."""


class AppliedProject(Project):
    """`up` applies BASE with changed sections; the rest of the methods tell what the cluster holds."""

    def __init__(self, folder: Path, kubeconfig: Path) -> None:
        super().__init__(folder, STACK)
        standins = Path(__file__).resolve().parents[2] / "standins" / "pulumi_standins" / "bin"
        self.environment |= {
            "KUBECONFIG": str(kubeconfig),
            "PATH": f"{standins}{os.pathsep}{self.environment['PATH']}",
            "PULUMI_HOME": str(folder / "home"),
            "PULUMI_BACKEND_URL": f"{(folder / 'state').as_uri()}?metadata=skip",
        }
        connection: Any = config.new_client_from_config(str(kubeconfig))  # type: ignore[no-untyped-call]
        self.connection = connection
        self.core = client.CoreV1Api(connection)
        self.jobs = client.CustomObjectsApi(connection)

    def up(self, *options: str, **changes: Any) -> str:
        """Write the stack file, BASE with `changes` (path of a key, to value), and apply it. Raises UpError."""
        self.configured(**changes)
        return self.apply(*options)

    def configured(self, **changes: Any) -> None:
        """Write the stack file: BASE with `changes`, path of a key, to value."""
        sections = copy.deepcopy(BASE)
        for path, value in changes.items():
            set_key(sections, path.split("."), value)
        self.configure(sections)

    def plant(self, path: str, word: str) -> None:
        """Encrypt `word` into the stack file, as a user would."""
        done = self.pulumi(
            *("config", "set", "--stack", self.stack, "--secret", "--path", f"trainstack:{path}", word)
        )
        assert done.returncode == 0, done.stdout

    def apply(self, *options: str) -> str:
        """Apply the stack file as it is; what Pulumi printed. Raises UpError."""
        chosen = ("--yes", "--skip-preview", "--stack", self.stack)
        done = self.pulumi("up", *chosen, *options, seconds=UP_S)
        if done.returncode:
            raise UpError(done.stdout)
        return done.stdout

    def refused(self, *options: str) -> str:
        """What Pulumi printed when it refused the stack file as it is."""
        try:
            shown = self.apply(*options)
        except UpError as error:
            return str(error)
        raise AssertionError(f"it was not refused: {shown}")

    def destroy(self) -> None:
        """Take everything away. Raises UpError."""
        done = self.pulumi("destroy", "--yes", "--skip-preview", "--stack", self.stack, seconds=UP_S)
        if done.returncode:
            raise UpError(done.stdout)

    def objects(self) -> dict[str, dict[str, Any]]:
        """The stack's volumes, claims, jobs and pods in the cluster, by `Kind/name`."""
        jobs: Any = self.jobs.list_cluster_custom_object(GROUP, VERSION, PLURAL)
        listed = {
            "PersistentVolume": self._listed(self.core.list_persistent_volume()),
            "PersistentVolumeClaim": self._listed(
                self.core.list_persistent_volume_claim_for_all_namespaces()
            ),
            "Pod": self._listed(self.core.list_pod_for_all_namespaces()),
            "PyTorchJob": jobs["items"],
        }
        return {
            f"{kind}/{each['metadata']['name']}": each for kind, items in listed.items() for each in items
        }

    def _listed(self, answer: Any) -> list[dict[str, Any]]:
        return [self.connection.sanitize_for_serialization(each) for each in answer.items]


def set_key(section: dict[str, Any], path: list[str], value: Any) -> None:
    """Set a key below `section`, making the mappings on its path."""
    *outer, last = path
    for name in outer:
        section = section.setdefault(name, {})
    section[last] = copy.deepcopy(value)

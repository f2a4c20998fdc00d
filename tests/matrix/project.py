"""The whole program of this clone, applied by the real Pulumi to an API server, in a folder of its own."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config

from infra import dataset
from infra.config.load import from_raw
from infra.inspection import SETTLE_S
from infra.job.context import context
from infra.job.manifest import manifest
from tests.matrix.entries import JOB
from tests.matrix.judging import Objects, by_key, files_at_risk, going, half_gone
from tests.matrix.played_operator import GROUP, PLURAL, VERSION
from tests.preview.project import ROOT, Project
from toolchain.checks import drift
from toolchain.operating import pulumi_cli
from toolchain.operating.environment import PARALLEL
from toolchain.steps import SetupError

STACK = "matrix"
# The test server has no operator, no registry and no file that a job could leave.
BASE: dict[str, Any] = {
    "cluster": {"kind": "existing"},
    "operator": {"install": "never"},
    "storage": {"prepare": False},
    "image": {"reference": "localhost:5000/trainer:1", "unpinned": True},
    "job": JOB,
}
UPDATES = {"up", "destroy", "refresh", "import"}


class UpError(Exception):
    """An update failed; the text is what Pulumi printed."""


class AppliedProject(Project):
    """`up` applies BASE with changed sections; the rest of the methods tell what the cluster holds."""

    def __init__(self, folder: Path, kubeconfig: Path, stack: str = STACK) -> None:
        super().__init__(folder, stack)
        standins = Path(__file__).resolve().parents[2] / "standins" / "pulumi_standins" / "bin"
        home = folder / "home"
        home.mkdir(exist_ok=True)
        (home / "logs").touch()  # a file: so Pulumi keeps no log of each call, as in a clone
        self.environment |= {
            "KUBECONFIG": str(kubeconfig),
            "PATH": f"{standins}{os.pathsep}{self.environment['PATH']}",
            "PULUMI_HOME": str(home),
            "PULUMI_BACKEND_URL": f"{(folder / 'state').as_uri()}?metadata=skip",
            **PARALLEL,
        }
        self.look_at(kubeconfig)
        self._standing: dict[str, Any] | None = None
        self.is_chained = False
        """Whether what stands differs from BASE in keys that make a new job, and in nothing else."""

    def use_hurried_program(self) -> None:
        """Run tests/matrix/hurried_program.py in the program's place."""
        program = self.folder / "hurried_program.py"
        program.symlink_to(ROOT / "tests" / "matrix" / program.name)
        definition = self.folder / "Pulumi.yaml"
        definition.write_text(definition.read_text().replace("main: infra", f"main: {program.name}"))

    def look_at(self, kubeconfig: Path) -> None:
        """Tell of this cluster from now on."""
        connection: Any = config.new_client_from_config(str(kubeconfig))  # type: ignore[no-untyped-call]
        self.connection = connection
        self.core = client.CoreV1Api(connection)
        self.jobs = client.CustomObjectsApi(connection)

    def up(self, *options: str, **changes: Any) -> str:
        """Apply BASE with `changes` (path of a key, to value) as `make up` does. Raises UpError."""
        self.configured(**changes)
        shown = self.apply(*options)
        self._standing = with_changes(changes)
        return shown

    def stand(self, **changes: Any) -> None:
        """As `up`, where the last update was not this one."""
        if self._standing != with_changes(changes):
            self.up(**changes)

    def configured(self, **changes: Any) -> None:
        """Write the stack file: BASE with `changes`, path of a key, to value."""
        self.configure(with_changes(changes))

    def plant(self, path: str, word: str) -> None:
        """Encrypt `word` into the stack file, as a user would."""
        done = self.pulumi(
            *("config", "set", "--stack", self.stack, "--secret", "--path", f"trainstack:{path}", word)
        )
        assert done.returncode == 0, done.stdout

    def pulumi(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Pulumi. After an update, only `up` knows what stands."""
        if arguments[0] in UPDATES:
            self._standing, self.is_chained = None, False
        return super().pulumi(*arguments)

    def apply(self, *options: str) -> str:
        """Apply the stack file as it is; what Pulumi printed. Raises UpError."""
        chosen = ("--yes", "--skip-preview", "--refresh", "--stack", self.stack)
        done = self.pulumi("up", *chosen, *options)
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

    def drifted(self) -> list[str]:
        """What `make drift` would print. Raises SetupError where it cannot tell."""

        def output(_: Mapping[str, str], *arguments: str) -> str:
            done = self.pulumi(*arguments)
            if done.returncode:
                raise SetupError(done.stdout)
            return done.stdout[done.stdout.index("{") :]

        with pytest.MonkeyPatch.context() as changed:
            changed.setattr(pulumi_cli, "_output", output)
            return drift.lines(*pulumi_cli.preview({}, self.stack, "--refresh"))

    def destroy(self) -> None:
        """Take everything away. Raises UpError."""
        done = self.pulumi("destroy", "--yes", "--skip-preview", "--stack", self.stack)
        if done.returncode:
            raise UpError(done.stdout)

    def edit_state(self, edit: Callable[[dict[str, Any]], Any]) -> Any:
        """Put the state back as `edit` leaves it; what `edit` returns."""
        exported = json.loads(self.pulumi("stack", "export", "--stack", self.stack).stdout)
        returned = edit(exported["deployment"])
        file = self.folder.parent / "edited.json"
        file.write_text(json.dumps(exported))
        done = self.pulumi("stack", "import", "--stack", self.stack, "--file", str(file))
        file.unlink()  # it may hold what only the import encrypts
        assert done.returncode == 0, done.stdout
        return returned

    def outputs(self) -> dict[str, Any]:
        done = self.pulumi("stack", "output", "--json", "--stack", self.stack)
        return dict(json.loads(done.stdout))

    def objects(self) -> Objects:
        """Namespaces, volumes, claims, jobs and pods of the cluster."""
        jobs: Any = self.jobs.list_cluster_custom_object(GROUP, VERSION, PLURAL)
        listed = {
            "Namespace": self._listed(self.core.list_namespace()),
            "PersistentVolume": self._listed(self.core.list_persistent_volume()),
            "PersistentVolumeClaim": self._listed(
                self.core.list_persistent_volume_claim_for_all_namespaces()
            ),
            "Pod": self._listed(self.core.list_pod_for_all_namespaces()),
            "PyTorchJob": jobs["items"],
        }
        return by_key({**each, "kind": kind} for kind, items in listed.items() for each in items)

    def settled(self) -> Objects:
        """The objects, none of them half gone; what a deletion has asked for may take as long as `make up` lets it.

        Nobody else's object goes meanwhile, so that what is missing later is missing because of the test.
        """
        end = time.monotonic() + SETTLE_S
        while told := half_gone(found := self.objects(), self.stack) + going(found):
            assert time.monotonic() < end, told
            time.sleep(0.2)
        assert not files_at_risk(found)
        return found

    def job_specs(self, **changes: Any) -> dict[str, Any]:
        """Job's name -> the spec that BASE with `changes` gives it, made without Pulumi; in a queue, once admitted."""
        stack = from_raw(self.stack, with_changes(changes), str(self.stack_file))
        image = str(stack.image.reference)
        chosen = dataset.of_jobs(stack)
        specs = {
            job.name: manifest(job, context(stack, image, chosen[job.name]))["spec"] for job in stack.jobs
        }
        for job in stack.jobs:
            if job.queue:
                specs[job.name]["runPolicy"]["suspend"] = False
        return specs

    def _listed(self, answer: Any) -> list[dict[str, Any]]:
        return [self.connection.sanitize_for_serialization(each) for each in answer.items]


@contextmanager
def applied(folder: Path, kubeconfig: Path, stack: str = STACK) -> Iterator[AppliedProject]:
    """A stack, which is destroyed at the end."""
    made = AppliedProject(folder, kubeconfig, stack)
    try:
        yield made
    finally:
        made.destroy()


def others_pod(name: str, claim: str, node: str = "") -> Any:
    """Somebody else's pod, which mounts a claim. On a node it holds the claim at once."""
    volume = {"name": "models", "persistentVolumeClaim": {"claimName": claim}}
    spec = {"containers": [{"name": "n", "image": "n"}], "volumes": [volume], "nodeName": node}
    return {"metadata": {"name": name}, "spec": spec}


def with_changes(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The sections of BASE with `changes`; a whole section that is None is left out."""
    sections = copy.deepcopy(BASE)
    for path, value in changes.items():
        set_key(sections, path.split("."), value)
    return {name: section for name, section in sections.items() if section is not None}


def set_key(section: dict[str, Any], path: list[str], value: Any) -> None:
    """Set a key below `section`, making the mappings on its path."""
    *outer, last = path
    for name in outer:
        section = section.setdefault(name, {})
    section[last] = copy.deepcopy(value)

"""A Git repository with what a review renders for engines, applied after each merge as docs/gitops.md says."""

from __future__ import annotations

import os
import re
import subprocess
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra import paths
from infra.config.load import from_raw
from infra.config.operator import OperatorApi
from infra.inspection import SETTLE_S
from infra.objects.job_kinds import OF_API, JobKind
from infra.review import folder
from tests.matrix.project import with_changes

STACK = "merged"
NAMESPACE = "merged"
PAGES = [paths.ROOT / "docs" / f"{name}.md" for name in ("review", "pull-requests", "gitops")]
# What the page shows of a stack is tried with the test's own.
SHOWN = {
    "rendered/gpu": f"rendered/{STACK}",
    "trainstack-gpu": f"trainstack-{STACK}",
    "-n kubeflow": f"-n {NAMESPACE}",
}


def blocks() -> list[str]:
    """The commands of each of the pages' blocks."""
    text = "".join(page.read_text() for page in PAGES)
    found = re.findall(r"^ *```console\n(.*?)```", text, re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(each) for each in found]


def block(first: str, shown: Mapping[str, str] = SHOWN) -> str:
    """The commands of the pages' only block that begins with the words `first`.

    Parameters:
        shown: what the page has -> what the test has in its place.
    """
    (found,) = [each for each in blocks() if each.startswith(first)]
    for theirs, ours in shown.items():
        found = found.replace(theirs, ours)
    return found


class MergedFolder:
    """`merge` commits a stack's rendering, `apply` does what the page says.

    Parameters:
        patience_s: how long an engine may take to apply a commit.
        given: what every merge changes in the tests' stack file, path of a key, to value.
    """

    def __init__(
        self,
        folder: Path,
        kubeconfig: Path,
        patience_s: float = SETTLE_S,
        given: Mapping[str, Any] | None = None,
    ) -> None:
        self.patience_s, self.given = patience_s, dict(given or {})
        self.root = folder / "repository"
        self.root.mkdir()
        self.environment = os.environ | {"KUBECONFIG": str(kubeconfig), "HOME": str(folder)}
        self.git("init", "--quiet")

    @property
    def kind(self) -> JobKind:
        """What the stack makes of a job, unless a merge changes that."""
        return OF_API[OperatorApi(self.given.get("operator.api", OperatorApi.V1))]

    def merge(self, **changes: Any) -> None:
        """Commit what a review renders for the tests' stack with `changes`, path of a key, to value."""
        sections = with_changes(
            {"cluster.namespace": NAMESPACE, "storage.prepare": True, **self.given, **changes}
        )
        stack = from_raw(STACK, sections, f"stacks/Pulumi.{STACK}.yaml")
        folder.write(self.root / "stacks", STACK, folder.files(stack))
        self.commit("Change the stack")

    def commit(self, message: str) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)

    def git(self, *words: str) -> None:
        who = ("-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *who, *words], cwd=self.root, env=self.environment, check=True)

    def built(self, group: str) -> str:
        """What kustomize makes of a group of the stack's objects."""
        return self.run(f"kubectl kustomize stacks/{folder.RENDERED}/{STACK}/{group}")

    def apply(self) -> str:
        """Do what the page says after a merge; what kubectl printed."""
        return self.run(block("export KUBECTL_APPLYSET"))

    def refused(self) -> str:
        """As `apply`, where that fails."""
        return self.run(block("export KUBECTL_APPLYSET"), status=1)

    def delete(self) -> str:
        """Do what the page says to delete a stack."""
        return self.run(block("kubectl delete"))

    def run(self, commands: str, status: int = 0) -> str:
        """Both outputs of a shell that has to end with `status`."""
        done = subprocess.run(
            ["bash", "-e", "-c", commands],
            cwd=self.root,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == status, done.stdout
        return done.stdout

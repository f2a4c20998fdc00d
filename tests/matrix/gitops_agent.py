"""Argo CD's own sync engine, as a program that applies the folder of a Git repository."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

from infra.review import folder, gitops
from tests.matrix.merged_folder import STACK, MergedFolder
from toolchain.tools import build

DONE = re.compile(r"^RESOURCE +RESULT$", re.MULTILINE)
FAILED = re.compile(r'"Failed to (?:parse target|synchronize cluster) state"')
LOOK = '"Syncing" "skipHooks"=false "started"=true'
# The engine looks once a second at what it waits for, but asks for the live objects at the beginning alone.
LOOKS = 5
BUILT = "../built"
"""A folder beside the repository, as the repository sees it."""


def program() -> Path:
    """The engine's agent, built on first use: no other command of ours needs it."""
    return build.build("gitops-agent") / "agent"


class AgentFolder(MergedFolder):
    """Commits are built by kustomize, and applied by the agent.

    Argo CD's controller begins again with each reconcile. The agent does not: with sync waves it waits for ever for
    objects that it has made itself. So it is ended after some looks, and started again until a sync has ended.
    """

    @property
    def command(self) -> list[str]:
        """The agent's command line, for the folder that the repository is in."""
        # A relative name: it is part of the mark by which the engine knows what it may prune.
        reached = [f"--kubeconfig={self.environment['KUBECONFIG']}", "--default-namespace=default"]
        return [str(program()), self.root.name, *reached, f"--path={BUILT}", "--port=0"]

    def apply(self) -> str:
        """Sync, and wait for its end; what the agent has printed."""
        printed = self._synced()
        assert not FAILED.search(printed), printed
        return printed

    def refused(self) -> str:
        """The engine tells of an object that the API server refuses as of each other result."""
        return self._synced()

    def _synced(self) -> str:
        program()  # the first use compiles it, which is none of the agent's time
        self._build()
        end, printed = time.monotonic() + self.patience_s, ""
        while not (DONE.search(printed) or FAILED.search(printed)):
            assert time.monotonic() < end, printed
            printed = self._reconciled(end)
        return printed

    def delete(self) -> str:
        """Merge the end of the stack's jobs."""
        self.git("rm", "--quiet", "-r", f"stacks/{folder.RENDERED}/{STACK}/{gitops.JOBS}")
        self.commit("Take the stack away")
        return self.apply()

    def _build(self) -> None:
        """Write what Argo CD's repository server hands to the engine, which reads no kustomization itself."""
        (self.root / BUILT).mkdir(exist_ok=True)
        for group in (gitops.KEPT, gitops.JOBS):
            is_there = (self.root / "stacks" / folder.RENDERED / STACK / group).exists()
            (self.root / BUILT / f"{group}.yaml").write_text(self.built(group) if is_there else "")

    def _reconciled(self, end: float) -> str:
        file = self.root.parent / "agent.log"
        with file.open("w") as log:
            agent = subprocess.Popen(
                self.command, cwd=self.root.parent, env=self.environment, stdout=log, stderr=subprocess.STDOUT
            )
            try:
                while not is_over(file.read_text()) and time.monotonic() < end:
                    time.sleep(0.2)
            finally:
                agent.kill()
                agent.wait()
        return file.read_text()


def is_over(printed: str) -> bool:
    """Whether the agent is done, has failed, or waits for what it has not looked at."""
    return bool(DONE.search(printed) or FAILED.search(printed)) or printed.count(LOOK) >= LOOKS

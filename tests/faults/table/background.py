"""`make up` or `make down` in another terminal, while a test breaks something."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.project import Project
from tests.e2e.waiting import HANG_S, wait_until

# The latest line of these in the output tells what the command works on.
_BEGINS = (
    ("refresh", r"^Updating \("),
    ("update", r"pulumi:pulumi:Stack \S+ running *$"),
    ("cluster", r"(dynamic/trainstack:KindCluster|kubernetes:core/v1:Namespace) \S+ creating"),
    (
        "operator",
        r"(kubernetes:\S+ \S+/(training-operator|pytorchjobs)\S*|:OperatorWebhook \S+) creating \(0s",
    ),
    ("image", r"dynamic/trainstack:(BuiltImage|RegistryImage|Registry|PulledImages) \S+ creating \(0s"),
    ("job", r"kubeflow.org/v1:PyTorchJob \S+ (creating|deleting)"),
    ("wait", r"dynamic/trainstack:Run \S+ creating"),
    ("last look", r"✓ pulumi (up|destroy)"),
    ("destroy", r"^Destroying \("),
)
# Images are built while kind works; the cluster takes longer.
_KIND_WORKS = re.compile(
    r"dynamic/trainstack:KindCluster (\S+) creating.*?(?:KindCluster \1 created|\Z)", re.DOTALL
)


def phases(output: str) -> list[str]:
    """What the command has worked on, in the order of what it says; `set-up` first."""
    kind_works = [match.span() for match in _KIND_WORKS.finditer(output)]
    found = [
        (match.start(), name)
        for name, pattern in _BEGINS
        for match in re.finditer(pattern, output, re.MULTILINE)
        if name != "image" or not any(begin < match.start() < end for begin, end in kind_works)
    ]
    return ["set-up", *(name for _, name in sorted(found))]


@dataclass
class Background:
    """A running `make`; `ended` waits for it."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def output(self) -> str:
        """What it has said so far."""
        return self.log.read_text(errors="replace")

    @property
    def phase(self) -> str:
        """What it works on now; `ended` when it has."""
        return "ended" if self.process.poll() is not None else phases(self.output)[-1]

    def says(self, pattern: str) -> bool:
        """Whether its output has a match. An AssertionError where it has ended without."""
        has_ended = self.process.poll() is not None
        found = re.search(pattern, self.output) is not None
        assert found or not has_ended, f"ended without {pattern}:\n{self.output}"
        return found

    def reaches(self, wanted: str) -> None:
        """Return as soon as it has begun to work on `wanted`. An AssertionError where it ends without it."""

        def there() -> bool:
            has_ended = self.process.poll() is not None
            begun = wanted in phases(self.output)
            assert begun or not has_ended, f"ended before {wanted}:\n{self.output}"
            return begun

        wait_until(f"make works on {wanted}", there, pause=0.05)

    def ended(self, seconds: float = HANG_S) -> int:
        """Its exit status. An AssertionError when it hangs."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds:.0f} s:\n{self.output}") from None


@contextmanager
def make(project: Project, *arguments: str, name: str = "") -> Iterator[Background]:
    """Start `make <arguments> ARGS=-v` in a session of its own; killed with all its processes when the block ends.

    Parameters:
        name: of its log, where two run at once.
    """
    log = (project.logs or project.root / ".trainstack") / f"background-{name or arguments[0]}.log"
    with project.making(*arguments, "ARGS=-v", log=log) as process:
        yield Background(process, log)

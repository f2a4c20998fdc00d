"""Which versions of the operators a change moves, and who shares them: there is one of each in a cluster."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from infra.config import ConfigError, Stack, from_file
from infra.review import folder
from infra.upstream import vendored

LOST = "Fields that the older definitions of {} do not have, in every job of the cluster: the API server drops them."


@dataclass(frozen=True)
class VersionChange:
    """A project of upstream's whose version is another one."""

    project: str
    before: str
    after: str

    @property
    def is_down(self) -> bool:
        """Whether the new version is the older one."""
        return _order(self.after) < _order(self.before)


def _order(version: str) -> list[int]:
    return [int(each) for each in re.findall(r"[0-9]+", version)]


def changes(stack: Stack, before: Path) -> list[VersionChange]:
    """The projects that `stack` installs in another version than the clone `before` has of them."""
    found = []
    for project in folder.projects_of(stack):
        now = vendored.folder(project).name
        for each in sorted((before / folder.UPSTREAM).glob(f"{project}-[0-9]*")):
            if each.name != now:
                found.append(
                    VersionChange(project, *(name.removeprefix(f"{project}-") for name in (each.name, now)))
                )
    return found


def beside(stack: Stack, file: Path) -> list[str]:
    """Names of the other stacks beside `file` that are on the cluster of `stack`."""
    found = []
    for other in sorted(file.parent.glob("Pulumi.*.yaml")):
        try:
            each = from_file(other)
        except ConfigError:
            continue
        if each.name != stack.name and _cluster(each) == _cluster(stack):
            found.append(each.name)
    return found


def _cluster(stack: Stack) -> tuple[str, dict[str, str]]:
    return stack.cluster.kind.value, stack.cluster.named(stack.name)

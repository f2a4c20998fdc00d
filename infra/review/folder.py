"""The folder of a stack below stacks/rendered: the files that it must have, and the differences to its files."""

from __future__ import annotations

import difflib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from infra import paths, stack_plan
from infra.config import Stack
from infra.config.operator import OperatorApi, Queueing
from infra.config.training import Dataset
from infra.image.component import rendered_reference
from infra.objects.manifest import Manifest
from infra.review import gitops
from infra.review.text import text
from infra.training_operator.patches import CRD_KIND
from infra.upstream import vendored

STACKS = paths.ROOT / "stacks"
RENDERED = "rendered"
# The API of a stack -> the projects below UPSTREAM with its definitions. They are long, and only in these folders.
PROJECTS = {OperatorApi.V1: ("training-operator",), OperatorApi.V2: ("jobset", "trainer")}
UPSTREAM = "infra/upstream"


def projects_of(stack: Stack) -> tuple[str, ...]:
    """The upstream projects whose controllers `stack` installs if they are missing."""
    if not stack.operator.installs(stack.cluster):
        return ()
    kueue = ("kueue",) if stack.operator.queue is Queueing.KUEUE else ()
    return (*PROJECTS[stack.operator.api], *kueue)


def files(stack: Stack, datasets: Mapping[str, Dataset | None] | None = None) -> dict[str, str]:
    """Path below STACKS -> contents: a file for each group of objects, and kustomizations for engines.

    Raises ConfigError for a broken policy.

    Parameters:
        datasets: job's name -> its data set; default: the data sets of a review.
    """
    found = groups(stack, datasets)
    image = rendered_reference(stack)
    contents = {gitops.file_of(name): text(each, image) for name, each in found.items()}
    if not gitops.obstacle(stack):
        upstream = [f"../../../{UPSTREAM}/{vendored.folder(each).name}" for each in projects_of(stack)]
        contents |= gitops.kustomizations(found, upstream)
    return {f"{RENDERED}/{stack.name}/{name}": content for name, content in contents.items()}


def groups(stack: Stack, datasets: Mapping[str, Dataset | None] | None = None) -> dict[str, list[Manifest]]:
    """Name of a group -> its objects, both in the order in which they are applied. Without upstream's CRDs.

    Guard and operator are separate groups: the guard's policy needs rights in the whole cluster, and the operator is
    applied server-side.
    """
    planned = stack_plan.of(stack, stack_plan.reviewed(stack), datasets, rendered_reference(stack))
    stack_plan.ensure_allowed(stack, [each.manifest for each in planned])
    found: dict[str, list[Manifest]] = {group: [] for group in gitops.GROUPS}
    for each in planned:
        if each.manifest["kind"] != CRD_KIND:
            found[gitops.group_of(each)].append(each.manifest)
    return {name: objects for name, objects in found.items() if objects}


def has_objects(name: str) -> bool:
    """Whether a rendered file has objects of the stack."""
    return name.endswith(".yaml") and not name.endswith(gitops.KUSTOMIZATION)


def definitions(stack: Stack, root: Path = paths.ROOT) -> dict[str, str]:
    """Path below the clone `root` -> contents, of upstream's definitions that `stack` installs if they are missing."""
    found = [
        file
        for project in projects_of(stack)
        for file in sorted((root / UPSTREAM).glob(f"{project}-[0-9]*/{vendored.DEFINITIONS}/*.yaml"))
    ]
    return {str(file.relative_to(root)): file.read_text() for file in found}


def write(root: Path, stack: str, contents: Mapping[str, str]) -> None:
    """Write `contents` to the stack's folder below `root`, and delete all other files there."""
    shutil.rmtree(root / RENDERED / stack, ignore_errors=True)
    for name, content in contents.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def stale(root: Path, stack: str, contents: Mapping[str, str]) -> str:
    """The difference between the files of `stack` below `root` and `contents`; empty if they are equal."""
    there = on_disk(root, stack)
    lines: list[str] = []
    for name in sorted({*there, *contents}):
        old, new = there.get(name, "").splitlines(), contents.get(name, "").splitlines()
        lines += difflib.unified_diff(old, new, f"committed/{name}", f"fresh/{name}", lineterm="")
    return "\n".join(lines)


def changes(root: Path, stack: str, contents: Mapping[str, str]) -> list[str]:
    """One line for each file that writing `contents` will add to `root`, change or remove."""
    there = on_disk(root, stack)
    differing = [name for name in sorted({*there, *contents}) if there.get(name) != contents.get(name)]
    words = {name: "changed" if name in contents else "removed" for name in differing}
    return [f"{word if name in there else 'new'}: {name}" for name, word in words.items()]


def on_disk(root: Path, stack: str) -> dict[str, str]:
    """All files in the stack's folder (path -> contents), with any name: an engine may apply each of them."""
    own = [f"{RENDERED}/{stack}/{name}" for name in below(root / RENDERED / stack)]
    return {name: _content(root / name) for name in own}


def below(root: Path) -> list[str]:
    """The files below `root`, relative to it, in a stable order; a link to a file or folder counts as a file."""
    found = []
    for place, folders, files in os.walk(root):
        links = [name for name in folders if (Path(place) / name).is_symlink()]
        found += [str((Path(place) / name).relative_to(root)) for name in (*files, *links)]
    return sorted(found)


def _content(path: Path) -> str:
    return f"link to {path.readlink()}" if path.is_symlink() else path.read_text(errors="replace")

"""The folders below stacks/: what they have to hold for a stack, and how that differs from what they hold."""

from __future__ import annotations

import difflib
import os
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

from infra import paths
from infra.config import Stack
from infra.config.operator import OperatorApi
from infra.config.training import Dataset
from infra.guard import component as guard
from infra.image.component import rendered_reference
from infra.objects import gangs
from infra.objects.manifest import Manifest
from infra.review import gitops, rendering
from infra.review.text import text
from infra.training_operator.patches import CRD_KIND
from infra.upstream import vendored

STACKS = paths.ROOT / "stacks"
RENDERED = "rendered"
GITOPS = "gitops"
FOLDERS = (RENDERED, GITOPS)
# `kubectl apply -f <folder>` reads no subfolders; the operator is applied server-side, before the rest.
OPERATOR = "operator"
# What guards the namespace: its policy takes rights in the whole cluster.
GUARD = "guard"
# The API of a stack -> the projects below UPSTREAM whose definitions are its. They are long, and lie there alone.
PROJECTS = {OperatorApi.V1: ("training-operator",), OperatorApi.V2: ("jobset", "trainer")}
UPSTREAM = "infra/upstream"


def files(stack: Stack, datasets: Mapping[str, Dataset | None] | None = None) -> dict[str, str]:
    """Path below STACKS -> contents, one object each. Raises ConfigError for a broken policy.

    Parameters:
        datasets: job's name -> its data set; without it the one that a review shows for `auto`.
    """
    planned = rendering.rendered_plan(stack)
    chosen = rendering.rendered_datasets(stack) if datasets is None else datasets
    workload = rendering.workload(stack, planned, rendered_reference(stack), chosen)
    operator = rendering.operator(stack, planned)
    rendering.ensure_allowed(stack, [*workload, *operator])
    own = [each for each in operator if each["kind"] != CRD_KIND or each["metadata"]["name"] in gangs.CRDS]
    apart = {GUARD: guard.manifests(stack, own), OPERATOR: own}
    return {
        **_texts(f"{RENDERED}/{stack.name}", _numbered(workload)),
        **_below(f"{RENDERED}/{stack.name}", apart),
        **_for_engines(stack, workload, apart),
    }


def definitions(stack: Stack, root: Path = paths.ROOT) -> dict[str, str]:
    """Path below `root`, a clone -> contents, of upstream's definitions that `stack` brings where nobody else has."""
    if not stack.operator.installs(stack.cluster):
        return {}
    found = [
        file
        for project in PROJECTS[stack.operator.api]
        for file in sorted((root / UPSTREAM).glob(f"{project}-[0-9]*/{vendored.DEFINITIONS}/*.yaml"))
    ]
    return {str(file.relative_to(root)): file.read_text() for file in found}


def _below(root: str, apart: Mapping[str, list[Manifest]]) -> dict[str, str]:
    """The texts of objects in folders of their own."""
    folders = (_texts(f"{root}/{name}", _numbered(objects)) for name, objects in apart.items())
    return {file: content for each in folders for file, content in each.items()}


def _for_engines(
    stack: Stack, workload: list[Manifest], apart: Mapping[str, list[Manifest]]
) -> dict[str, str]:
    if gitops.obstacle(stack):
        return {}
    projects = PROJECTS[stack.operator.api] if stack.operator.installs(stack.cluster) else ()
    upstream = [f"../../../{UPSTREAM}/{vendored.folder(each).name}" for each in projects]
    found = gitops.files(
        _numbered(workload), {name: _numbered(each) for name, each in apart.items()}, upstream
    )
    return {f"{GITOPS}/{stack.name}/{name}": content for name, content in found.items()}


def _numbered(manifests: list[Manifest]) -> dict[str, Manifest]:
    """File's name -> object. The numbers are the order in which the objects are applied."""
    return {f"{place:02}-{_name(each)}": each for place, each in enumerate(manifests)}


def _texts(folder: str, manifests: Mapping[str, Manifest]) -> dict[str, str]:
    return {f"{folder}/{name}": text(each) for name, each in manifests.items()}


def _name(manifest: Manifest) -> str:
    return f"{manifest['kind'].lower()}-{manifest['metadata']['name']}.yaml"


def write(root: Path, stack: str, contents: Mapping[str, str]) -> None:
    """Make the stack's folders below `root` hold `contents` and no more."""
    for folder in FOLDERS:
        shutil.rmtree(root / folder / stack, ignore_errors=True)
    for name, content in contents.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def stale(root: Path, stack: str, contents: Mapping[str, str], skip: Collection[str] = ()) -> str:
    """The difference between `root` and what it should hold for `stack`, empty when there is none.

    Parameters:
        skip: files and folders below `root` that are not compared.
    """
    there = on_disk(root, stack)
    lines: list[str] = []
    for name in sorted({*there, *contents}):
        if name not in skip and not name.startswith(tuple(f"{folder}/" for folder in skip)):
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
    """The stack's files, whatever they are called: an engine may apply each of them."""
    own = [f"{folder}/{stack}/{name}" for folder in FOLDERS for name in below(root / folder / stack)]
    return {name: _content(root / name) for name in own}


def below(root: Path) -> list[str]:
    """The files below `root`, relative to it, in a stable order; a link is a file, whatever it leads to."""
    found = []
    for place, folders, files in os.walk(root):
        links = [name for name in folders if (Path(place) / name).is_symlink()]
        found += [str((Path(place) / name).relative_to(root)) for name in (*files, *links)]
    return sorted(found)


def _content(path: Path) -> str:
    return f"link to {path.readlink()}" if path.is_symlink() else path.read_text(errors="replace")

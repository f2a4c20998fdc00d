"""The folders below stacks/: what they have to hold for a stack, and how that differs from what they hold."""

from __future__ import annotations

import difflib
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path, PurePosixPath

from infra import paths
from infra.config import Stack
from infra.config.operator import OperatorApi
from infra.config.training import Dataset
from infra.guard import component as guard
from infra.image.component import rendered_reference
from infra.objects import gangs
from infra.objects.labels import STACK
from infra.objects.manifest import Manifest
from infra.review import gitops, rendering
from infra.review.text import text
from infra.training_operator.patches import CRD_KIND

STACKS = paths.ROOT / "stacks"
RENDERED = "rendered"
GITOPS = "gitops"
# `kubectl apply -f <folder>` reads no subfolders; the operator is applied server-side, before the rest.
OPERATOR = "operator"
# What guards the namespace: its policy takes rights in the whole cluster.
GUARD = "guard"
# The API of a stack -> the folder of objects that are long and the same for every stack of it; the stack's own label is
# left out. Their kustomization stands beside the folder: `kubectl apply -f <folder>` takes every file for an object.
SHARED = {OperatorApi.V1: f"{RENDERED}/shared", OperatorApi.V2: f"{RENDERED}/shared-trainer/crds"}


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
    shared = [
        each for each in operator if each["kind"] == CRD_KIND and each["metadata"]["name"] not in gangs.CRDS
    ]
    own = [each for each in operator if each not in shared]
    apart = {GUARD: guard.manifests(stack, own), OPERATOR: own}
    return {
        **_texts(f"{RENDERED}/{stack.name}", _numbered(workload)),
        **_below(f"{RENDERED}/{stack.name}", apart),
        **_of_all_stacks(SHARED[stack.operator.api], [of_every_stack(each) for each in shared]),
        **_for_engines(stack, workload, apart, bool(shared)),
    }


def _below(root: str, apart: Mapping[str, list[Manifest]]) -> dict[str, str]:
    """The texts of objects in folders of their own."""
    folders = (_texts(f"{root}/{name}", _numbered(objects)) for name, objects in apart.items())
    return {file: content for each in folders for file, content in each.items()}


def _of_all_stacks(place: str, shared: list[Manifest]) -> dict[str, str]:
    """The shared objects in their folder, and beside it a kustomization for those that refer to them."""
    found = _texts(place, _numbered(shared))
    top = _above(place)
    names = [name.removeprefix(f"{top}/") for name in found]
    return {**found, **({f"{top}/{gitops.KUSTOMIZATION}": gitops.kustomization(names)} if found else {})}


def _above(place: str) -> str:
    return str(PurePosixPath(place).parent)


def is_shared(name: str) -> bool:
    """Whether a file of `files` is the same for every stack of an API."""
    return name.startswith(tuple(f"{place}/" for place in SHARED.values()))


def _for_engines(
    stack: Stack, workload: list[Manifest], apart: Mapping[str, list[Manifest]], needs_shared: bool
) -> dict[str, str]:
    if gitops.obstacle(stack):
        return {}
    shared = f"../../{_above(SHARED[stack.operator.api])}" if needs_shared else None
    found = gitops.files(_numbered(workload), {name: _numbered(each) for name, each in apart.items()}, shared)
    return {f"{GITOPS}/{stack.name}/{name}": content for name, content in found.items()}


def of_every_stack(manifest: Manifest) -> Manifest:
    """`manifest` without the label that names its stack."""
    labels = {key: value for key, value in manifest["metadata"]["labels"].items() if key != STACK}
    return {**manifest, "metadata": {**manifest["metadata"], "labels": labels}}


def _numbered(manifests: list[Manifest]) -> dict[str, Manifest]:
    """File's name -> object. The numbers are the order in which the objects are applied."""
    return {f"{place:02}-{_name(each)}": each for place, each in enumerate(manifests)}


def _texts(folder: str, manifests: Mapping[str, Manifest]) -> dict[str, str]:
    return {f"{folder}/{name}": text(each) for name, each in manifests.items()}


def _name(manifest: Manifest) -> str:
    return f"{manifest['kind'].lower()}-{manifest['metadata']['name']}.yaml"


def write(root: Path, stack: str, contents: Mapping[str, str]) -> None:
    """Make the stack's folders below `root` hold their part of `contents` and no more, and write what stacks share."""
    for folder in (RENDERED, GITOPS):
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
    there = _on_disk(root, stack, contents)
    lines: list[str] = []
    for name in sorted({*there, *contents}):
        if name not in skip and not name.startswith(tuple(f"{folder}/" for folder in skip)):
            old, new = there.get(name, "").splitlines(), contents.get(name, "").splitlines()
            lines += difflib.unified_diff(old, new, f"committed/{name}", f"fresh/{name}", lineterm="")
    return "\n".join(lines)


def changes(root: Path, stack: str, contents: Mapping[str, str]) -> list[str]:
    """One line for each file that writing `contents` will add to `root`, change or remove."""
    there = _on_disk(root, stack, contents)
    differing = [name for name in sorted({*there, *contents}) if there.get(name) != contents.get(name)]
    words = {name: "changed" if name in contents else "removed" for name in differing}
    return [f"{word if name in there else 'new'}: {name}" for name, word in words.items()]


def _on_disk(root: Path, stack: str, contents: Mapping[str, str]) -> dict[str, str]:
    """The stack's files, and those that it shares with others."""
    own = [path for folder in (RENDERED, GITOPS) for path in (root / folder / stack).rglob("*.yaml")]
    shared = [root / name for name in contents if not name.startswith(_own(stack))]
    return {str(path.relative_to(root)): path.read_text() for path in [*own, *shared] if path.exists()}


def _own(stack: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{stack}/" for folder in (RENDERED, GITOPS))

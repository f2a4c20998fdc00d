"""`python -m infra.review <stack>`: writes what would be applied to stacks/rendered/<stack>/, or checks it."""

from __future__ import annotations

import argparse
import difflib
import shutil
import sys
from collections.abc import Collection
from pathlib import Path

import yaml

from infra import paths
from infra.config import ConfigError, Stack, from_file
from infra.image.component import rendered_reference
from infra.objects.manifest import Manifest
from infra.process import CommandError
from infra.review import rendering

RENDERED = paths.ROOT / "stacks" / "rendered"
# `kubectl apply -f <folder>` reads no subfolders, and the CRD is too long for its annotation; it is applied apart.
OPERATOR = "operator"


def files(stack: Stack) -> dict[str, str]:
    """Path below the stack's folder -> contents, one object each. Raises ConfigError for a broken policy."""
    planned = rendering.rendered_plan(stack)
    datasets = rendering.rendered_datasets(stack)
    workload = rendering.workload(stack, planned, rendered_reference(stack), datasets)
    operator = rendering.operator(stack, planned)
    rendering.ensure_allowed(stack, [*workload, *operator])
    ordered = {f"{place:02}-{_name(each)}": _text(each) for place, each in enumerate(workload)}
    return ordered | {
        f"{OPERATOR}/{place:02}-{_name(each)}": _text(each) for place, each in enumerate(operator)
    }


def _name(manifest: Manifest) -> str:
    return f"{manifest['kind'].lower()}-{manifest['metadata']['name']}.yaml"


def _text(manifest: Manifest) -> str:
    return yaml.dump(manifest, Dumper=_Dumper, sort_keys=True, width=100, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """Without anchors, and with text of several lines as a block."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)


def write(folder: Path, contents: dict[str, str]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def stale(folder: Path, contents: dict[str, str], skip: Collection[str] = ()) -> str:
    """The difference between the folder and what it should hold, empty when there is none.

    `skip`: names of subfolders that are not compared.
    """
    there = {name: text for name, text in _there(folder).items() if name.partition("/")[0] not in skip}
    lines: list[str] = []
    for name in sorted(there | contents):
        old, new = there.get(name, "").splitlines(), contents.get(name, "").splitlines()
        lines += difflib.unified_diff(old, new, f"committed/{name}", f"rendered/{name}", lineterm="")
    return "\n".join(lines)


def changes(folder: Path, contents: dict[str, str]) -> list[str]:
    """One line for each file that writing `contents` will add to the folder, change or remove."""
    there = _there(folder)
    differing = [name for name in sorted(there | contents) if there.get(name) != contents.get(name)]
    words = {name: "changed" if name in contents else "removed" for name in differing}
    return [f"{word if name in there else 'new'}: {name}" for name, word in words.items()]


def _there(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.yaml")}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stack")
    parser.add_argument("--check", action="store_true", help="compare with what is committed, write nothing")
    asked = parser.parse_args(arguments)
    path = paths.ROOT / "stacks" / f"Pulumi.{asked.stack}.yaml"
    if not path.exists():
        known = ", ".join(
            sorted(each.stem.removeprefix("Pulumi.") for each in path.parent.glob("Pulumi.*.yaml"))
        )
        print(f"there is no stack {asked.stack}; there are: {known}", file=sys.stderr)
        return 2
    try:
        contents = files(from_file(path))
    except (ConfigError, CommandError) as error:
        print(error, file=sys.stderr)
        return 1
    folder = RENDERED / asked.stack
    if asked.check:
        found = stale(folder, contents)
        print(found or f"{folder.relative_to(paths.ROOT)} is up to date")
        return 1 if found else 0
    said = changes(folder, contents)
    write(folder, contents)
    print(f"{len(contents)} objects in {folder.relative_to(paths.ROOT)}")
    print("\n".join(said or ["no change"]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`python -m infra.review <stack>`: writes what would be applied to stacks/rendered/<stack>/, or checks it."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from infra import dataset, paths
from infra.config import ConfigError, Stack, from_file
from infra.process import CommandError
from infra.review import folder


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m infra.review", description=__doc__)
    top.add_argument("stack")
    top.add_argument("--check", action="store_true", help="compare with what is committed, write nothing")
    top.add_argument(
        "--here",
        action="store_true",
        help="render `dataset: auto` as what this machine's data/ holds, as `pulumi up` does",
    )
    return top


def main(arguments: list[str]) -> int:
    given = parser().parse_args(arguments)
    path = paths.ROOT / "stacks" / f"Pulumi.{given.stack}.yaml"
    if not path.exists():
        known = sorted(each.stem.removeprefix("Pulumi.") for each in path.parent.glob("Pulumi.*.yaml"))
        print(f"there is no stack {given.stack}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    try:
        stack = from_file(path)
        contents = folder.files(stack, dataset.of_jobs(stack) if given.here else None)
    except (ConfigError, CommandError, dataset.DataError) as error:
        print(error, file=sys.stderr)
        return 1
    return check(stack, contents) if given.check else write(stack, contents)


def check(stack: Stack, contents: dict[str, str]) -> int:
    """Print how what is committed differs from `contents`; 1 where it does."""
    difference = folder.stale(folder.RENDERED, stack.name, contents)
    print(difference or f"{shown(folder.RENDERED / stack.name)} is up to date")
    return 1 if difference else 0


def write(stack: Stack, contents: dict[str, str]) -> int:
    """Write `contents`, and print which files that changes."""
    changed = folder.changes(folder.RENDERED, stack.name, contents)
    folder.write(folder.RENDERED, stack.name, contents)
    counts = Counter(name.partition("/")[0] for name in contents)
    for name, count in counts.items():
        print(f"{count} {'object' if count == 1 else 'objects'} in {shown(folder.RENDERED / name)}")
    print("\n".join(changed or ["no change"]))
    return 0


def shown(path: Path) -> str:
    return str(path.relative_to(paths.ROOT))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

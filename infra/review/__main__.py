"""`python -m infra.review <stack>`: writes the stack's rendering below stacks/, or checks the rendering there."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from infra import dataset, paths
from infra.config import ConfigError, Stack, from_file
from infra.config.load import ensure_one_place
from infra.process import CommandError
from infra.review import folder, gitops, page
from infra.review.text import objects_in


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="python -m infra.review", description=__doc__)
    top.add_argument("stack")
    top.add_argument("--check", action="store_true", help="compare with what is committed, write nothing")
    top.add_argument(
        "--here",
        action="store_true",
        help="render `dataset: auto` as the data set on this machine, as `pulumi up` does",
    )
    top.add_argument(
        "--into",
        type=Path,
        default=folder.STACKS,
        metavar="DIR",
        help="the folder with rendered/; default: stacks",
    )
    top.add_argument("--page", type=Path, metavar="FILE", help="write a page for the pull request, too")
    top.add_argument(
        "--base", type=Path, default=Path(os.devnull), metavar="DIR", help="stacks/ to compare with"
    )
    top.add_argument("--revision", default="nothing", help="name of the revision in --base, for the page")
    return top


def main(arguments: list[str]) -> int:
    """Render the stack named in `arguments`. Returns the exit status."""
    given = parser().parse_args(arguments)
    path = paths.stack_file(given.stack)
    if not path.exists():
        known = sorted(each.stem.removeprefix("Pulumi.") for each in path.parent.glob("Pulumi.*.yaml"))
        print(
            f"there is no stack {given.stack}; the stacks are: {', '.join(known) or 'none'}", file=sys.stderr
        )
        return 2
    base = page.Base(given.base, given.revision)
    try:
        ensure_one_place(paths.ROOT)
        stack = from_file(path)
        contents = folder.files(stack, dataset.of_jobs(stack) if given.here else None)
    except (ConfigError, CommandError, dataset.DataError) as error:
        print(error, file=sys.stderr)
        if given.page:
            write_page(given.page, page.refused(given.stack, base, str(error)))
        return 1
    if given.check:
        return check(given.into, stack, contents)
    write(given.into, stack, contents)
    if not given.page:
        return 0
    found = page.page(stack, path, contents, base)
    write_page(given.page, found.text)
    return 0 if found.passed else 1


def write_page(target: Path, text: str) -> None:
    """Write the page for the pull request, and print its path."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    print(f"page: {os.path.relpath(target, paths.ROOT)}")


def check(root: Path, stack: Stack, contents: dict[str, str]) -> int:
    """Print the differences between `root` and `contents`. Returns 1 if there are any."""
    difference = folder.stale(root, stack.name, contents)
    print(difference or f"{stack.name} is up to date in {os.path.relpath(root, paths.ROOT)}")
    return 1 if difference else 0


def write(root: Path, stack: Stack, contents: dict[str, str]) -> None:
    """Write `contents` below `root`, and print the changed files."""
    changed = folder.changes(root, stack.name, contents)
    folder.write(root, stack.name, contents)
    count = sum(len(objects_in(text)) for name, text in contents.items() if folder.has_objects(name))
    where = os.path.relpath(root / folder.RENDERED / stack.name, paths.ROOT)
    print(f"{count} {'object' if count == 1 else 'objects'} in {where}")
    if reason := gitops.obstacle(stack):
        print(f"no kustomization for GitOps engines: {reason}")
    print("\n".join(changed or ["no change"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

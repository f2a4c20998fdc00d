"""One page about a pull request, with each stack that it changes.

Every stack is rendered after every change: a list of the inputs of a rendering could be incomplete. A stack is shown if
its file, its rendering or upstream's definitions differ from the base, or if something is wrong.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from infra import agreed, dataset
from infra.config import ConfigError, from_file
from infra.config.load import base_of, ensure_one_place, own
from infra.process import CommandError
from infra.review import folder, page

NAME = re.compile(r"[A-Za-z0-9_.-]+")
"""A stack's name, as Pulumi takes it."""
FILE = re.compile(r"Pulumi\.(.+)\.yaml")
MOST_LINES = 200
UNCHANGED = "No stack has changed."
OTHERS = "All other stacks apply the same objects as before."


def names(stacks: Path) -> set[str]:
    """The stacks that have a file in the folder `stacks`."""
    files = stacks.iterdir() if stacks.is_dir() else ()
    found = (FILE.fullmatch(each.name) for each in files)
    return {each[1] for each in found if each and NAME.fullmatch(each[1])}


def strangers(stacks: Path, known: set[str]) -> list[str]:
    """Files and links below `stacks` that belong to no stack of `known`, so that no review shows them.

    A base belongs to each stack that extends it. If a stack is refused, any file could be its base.
    """
    files = [file for name in known if (file := stacks / f"Pulumi.{name}.yaml").exists()]
    try:
        bases = {base.name for file in files if (base := base_of(own(file), file))}
    except ConfigError:
        bases = {each.name for each in stacks.glob("*.yaml") if not each.name.startswith("Pulumi.")}
    return [name for name in folder.below(stacks) if _stack_of(name) not in known and name not in bases]


def _stack_of(name: str) -> str | None:
    """The stack that a file below stacks/ belongs to; None for any other file."""
    top, *rest = Path(name).parts
    if rest:
        return rest[0] if top == folder.RENDERED and len(rest) > 1 else None
    file = FILE.fullmatch(top)
    return file[1] if file else None


def part(stacks: Path, name: str, base: page.Base) -> page.Page | None:
    """The page's part about the stack `name`; None if nothing changed and nothing is wrong."""
    file = stacks / f"Pulumi.{name}.yaml"
    if not file.exists():
        return _gone(stacks, name)
    try:
        stack = from_file(file)
        contents = folder.files(stack)
    except (ConfigError, CommandError, dataset.DataError) as error:
        return page.Page(page.refused(name, base, str(error)).splitlines(), [], passed=False)
    found = page.page(stack, file, contents, base)
    difference = folder.stale(stacks, name, contents)
    if found.passed and not difference and not found.changes and not _differs(stacks, name, base.folder):
        return None
    details = [*found.details, *_stale(difference)]
    return page.Page(
        [*found.head, *(_told_stale(name) if difference else ())],
        [f"## In stack `{name}`", "", *details] if details else [],
        found.passed and not difference,
    )


def _differs(stacks: Path, name: str, before: Path) -> bool:
    file = stacks / f"Pulumi.{name}.yaml"
    read = [file, *filter(None, [base_of(own(file), file)])]
    is_same = all(
        (before / each.name).is_file() and (before / each.name).read_bytes() == each.read_bytes()
        for each in read
    )
    return not is_same or folder.on_disk(stacks, name) != folder.on_disk(before, name)


def _gone(stacks: Path, name: str) -> page.Page:
    lines = [
        f"## Stack `{name}`",
        "",
        f"This request removes its stack file. To take the stack down, run `make down STACK={name}` before the merge.",
        "",
    ]
    stays = (stacks / folder.RENDERED / name).exists()
    if stays:
        lines += [
            "**Its rendering stays**, and an engine that applies this folder continues. "
            f"Run `git rm -r stacks/{folder.RENDERED}/{name}`, and commit.",
            "",
        ]
    return page.Page(lines, [], passed=not stays)


def _told_stale(name: str) -> tuple[str, ...]:
    told = f"Run `make review STACK={name}`, and commit the changed files."
    return (f"**The committed rendering is stale.** {told} The difference is below.", "")


def _stale(difference: str) -> list[str]:
    if not difference:
        return []
    lines = difference.splitlines()
    left = [f"and {len(lines) - MOST_LINES} more lines"] if len(lines) > MOST_LINES else []
    shown = page.fenced("\n".join([*lines[:MOST_LINES], *left]), "diff")
    return page.folded("The committed rendering, compared with a new one", shown)


def text(stacks: Path, base: page.Base, commit: str) -> tuple[str, bool]:
    """The page, and whether no stack has a problem.

    Parameters:
        stacks: the folder of the stack files.
        commit: the commit of the page.
    """
    here, before = names(stacks), names(base.folder)
    found = {name: part(stacks, name, base) for name in sorted(here | before)}
    odd = strangers(stacks, here | before)
    shown = [each for each in found.values() if each]
    lines = [agreed.REQUEST_MARK, f"This is about commit `{commit[:12]}`.", ""]
    if odd:
        lines += [
            "**These files below `stacks/` belong to no stack**, and no review shows them. Remove them:",
            "",
        ]
        lines += [*(f"- {page.code(each)}" for each in odd), ""]
    lines += [line for each in shown for line in each.head]
    if not shown and not odd:
        lines.append(UNCHANGED)
    elif shown and len(shown) < len(found):
        lines += [OTHERS, ""]
    lines += [line for each in shown for line in each.details]
    return "\n".join([*lines, ""]), not odd and all(each.passed for each in shown)


def write(target: Path, base: page.Base, commit: str, stacks: Path = folder.STACKS) -> int:
    """Write the page of `text` to the file `target`, and print its path. Returns 1 if a stack has a problem."""
    try:
        ensure_one_place(stacks.parent)
    except ConfigError as error:
        lines = [agreed.REQUEST_MARK, "The project is refused.", "", *page.fenced(str(error)), ""]
        target.write_text("\n".join(lines))
        raise
    told, passed = text(stacks, base, commit)
    target.write_text(told, errors="backslashreplace")
    print(f"page: {os.path.relpath(target)}")
    return 0 if passed else 1

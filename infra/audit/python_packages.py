"""The Python packages of the locks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from infra.audit.trusted import Kind, Trusted

LOCKS = (
    "requirements.lock",
    "requirements-board.lock",
    "requirements-browser.lock",
    "requirements-plots.lock",
    "requirements-sweep.lock",
    "toolchain/images/gpu-base.lock",
)
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
_HASH = re.compile(r"--hash=(sha256:[0-9a-f]{64})")
_CLASSIFIER = "License :: "
# A field `License` that holds a whole text tells no name.
LONGEST = 60


def locked(root: Path) -> Iterator[Trusted]:
    """Each package of the locks, with the checksums of all its files. `root`: the clone's folder."""
    for lock in LOCKS:
        yield from _of(lock, (root / lock).read_text())


def _of(lock: str, text: str) -> Iterator[Trusted]:
    found = list(_PINNED.finditer(text))
    for entry, following in zip(found, [*found[1:], None], strict=True):
        name, version = entry.groups()
        block = text[entry.end() : following.start() if following else None]
        checksums = tuple(_HASH.findall(block))
        yield Trusted(
            kind=Kind.PYTHON,
            name=name,
            version=version,
            checksums=checksums,
            licence=licence(name, version),
            place=lock,
        )


def licence(name: str, version: str) -> str:
    """What the installed package says; empty where another version is installed, or none."""
    try:
        found = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return ""
    if found["Version"] != version:
        return ""
    classifiers = [each for each in found.get_all("Classifier") or [] if each.startswith(_CLASSIFIER)]
    named = [each.rpartition(" :: ")[2] for each in classifiers if each.count(" :: ") > 1]
    (field,) = found.get_all("License") or [""]
    (expression,) = found.get_all("License-Expression") or [""]
    short = field.strip() if len(field) <= LONGEST and "\n" not in field and field != "UNKNOWN" else ""
    return expression or short or " and ".join(sorted(named))

"""Others' software that we trust, as far as this machine knows it.

This module lists Python packages of the lock files, Go modules of the tools, and Debian packages of this machine and of
images. `images.py` lists the images.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from pathlib import Path

from infra import agreed, docker
from infra.process import CommandError, output


class Kind(StrEnum):
    """The kinds of trusted software. A value is the plural that the list prints."""

    PYTHON = "Python packages"
    GO = "Go modules"
    DEBIAN = "Debian packages"
    IMAGE = "images"


@dataclass(frozen=True, kw_only=True)
class Trusted:
    """A package, module or image. An unknown property stays empty and counts as a gap: nothing is guessed.

    Parameters:
        kind: its kind.
        name: its name in its index or registry.
        version: its version; an image's tag.
        checksums: each with its algorithm, `sha256:...` or `h1:...` (Go's). A Python package has one for each file.
        licence: its maker's SPDX expression if there is one, else the maker's own words. For a Go module: SPDX's name,
            found from the licence's text.
        place: the file or the variable that names it, or the image or machine that contains it.
    """

    kind: Kind
    name: str
    version: str
    checksums: tuple[str, ...] = ()
    licence: str = ""
    place: str

    def gaps(self) -> list[str]:
        """Names of the unknown properties."""
        known = {"version": self.version, "checksum": self.checksums, "licence": self.licence}
        return [name for name, value in known.items() if not value]


@dataclass(frozen=True)
class Unknown:
    """Software that this machine cannot list, and why."""

    name: str
    reason: str


LOCKS = (
    "requirements.lock",
    "requirements-board.lock",
    "requirements-browser.lock",
    "requirements-plots.lock",
    "requirements-site.lock",
    "requirements-sweep.lock",
    "requirements-workflows.lock",
    "toolchain/images/gpu-base.lock",
)
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
_HASH = re.compile(r"--hash=(sha256:[0-9a-f]{64})")
_CLASSIFIER = "License :: "
# In characters. A longer field `License` has the text of a licence, not its name.
LONGEST = 60
LISTED = "${db:Status-Abbrev}\t${Package}\t${Version}\n"
# Prints the licences in each package's file `copyright`, if the file has Debian's machine-readable format.
LICENCES = "cd /usr/share/doc && grep -H '^License: ' */copyright"
TOOLS = Path("toolchain") / "tools" / "go"
_REQUIRED = re.compile(r"^(?:require )?\s*(\S+) (v\S+)(?: // indirect)?$", re.MULTILINE)
_REPLACED = re.compile(r"^(?:replace )?\s*(\S+)(?: v\S+)? => (\S+) (v\S+)$", re.MULTILINE)
# SPDX's name -> phrases of that licence's text. The text of BSD-3-Clause also has the phrase of BSD-2-Clause.
_LICENCE_TEXTS: Mapping[str, tuple[str, ...]] = {
    "Apache-2.0": ("Apache License", "Version 2.0, January 2004"),
    "MPL-2.0": ("Mozilla Public License", "ersion 2.0"),
    "MIT": ("Permission is hereby granted, free of charge, to any person obtaining a copy",),
    "ISC": ("Permission to use, copy, modify, and",),
    "BSD-3-Clause": ("Redistribution and use in source and binary forms", "endorse or promote products"),
    "BSD-2-Clause": ("Redistribution and use in source and binary forms",),
}
_LICENCE_FILES = ("LICENSE", "LICENSE.txt", "LICENSE.md", "LICENCE", "COPYING", "License", "license")


def locked(root: Path) -> Iterator[Trusted]:
    """Each package of LOCKS, with the checksums of all its files. `root`: the clone's folder."""
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
    """The licence of the installed package; empty if this version is not installed."""
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


def on_host(environment: Mapping[str, str] = os.environ) -> Iterator[Trusted]:
    """The Debian packages that we installed on this machine, by our record, and that are still installed."""
    record = Path(environment.get(agreed.MACHINE) or agreed.USUAL_MACHINE) / "packages"
    try:
        ours = set(record.read_text().split())
        listed = output("dpkg-query", "--show", f"--showformat={LISTED}") if ours else ""
    except (OSError, CommandError):
        return
    said = _or_nothing("sh", "-c", LICENCES)
    yield from (each for each in _packages(listed, said, "this machine") if each.name in ours)


def in_image(image: str) -> Iterator[Trusted | Unknown]:
    """The Debian packages of an image in the container engine; nothing if it has no dpkg. Raises CommandError."""
    if not docker.has_image(image):
        yield Unknown(image, "the image is not on this machine, so its packages are unknown")
        return
    run = ("docker", "run", "--rm", "--network", "none", "--entrypoint")
    if not _or_nothing(*run, "dpkg-query", image, "--version"):
        return
    listed = output(*run, "dpkg-query", image, "--show", f"--showformat={LISTED}")
    yield from _packages(listed, _or_nothing(*run, "sh", image, "-c", LICENCES), image)


def _or_nothing(*command: str) -> str:
    try:
        return output(*command)
    except CommandError:
        return ""


def _packages(listed: str, licences: str, place: str) -> Iterator[Trusted]:
    """The packages in dpkg's list. dpkg keeps no checksums: apt compared them before it unpacked the packages."""
    named: dict[str, set[str]] = {}
    for package, name in re.findall(r"^([^/]+)/copyright:License: (.+)$", licences, re.MULTILINE):
        named.setdefault(package, set()).add(name.strip())
    for line in listed.splitlines():
        state, name, version = line.split("\t")
        if state.strip() == "ii":
            licence = ", ".join(sorted(named.get(name, ())))
            yield Trusted(kind=Kind.DEBIAN, name=name, version=version, licence=licence, place=place)


def modules(root: Path) -> Iterator[Trusted]:
    """Each Go module of the tools once, with Go's own checksum. `root`: the clone's folder."""
    cache = module_cache()
    seen: set[tuple[str, str]] = set()
    for file in sorted((root / TOOLS).glob("*/go.mod")):
        text = file.read_text()
        replaced = {old: (name, version) for old, name, version in _REPLACED.findall(text)}
        sums = _sums(file.with_name("go.sum"))
        for name, version in _REQUIRED.findall(text):
            module = replaced.get(name, (name, version))
            if module not in seen:
                seen.add(module)
                checksum = sums.get(" ".join(module))
                yield Trusted(
                    kind=Kind.GO,
                    name=module[0],
                    version=module[1],
                    checksums=(checksum,) if checksum else (),
                    licence=licence_of_module(cache, *module) if cache else "",
                    place=str(file.relative_to(root)),
                )


def _sums(file: Path) -> dict[str, str]:
    """`module version` -> its checksum."""
    lines = (line.rpartition(" ") for line in file.read_text().splitlines())
    return {module: checksum for module, _, checksum in lines}


def module_cache() -> Path | None:
    """The folder with the modules' sources; None without Go."""
    try:
        return Path(output("go", "env", "GOMODCACHE").strip())
    except CommandError:
        return None


def licence_of_module(cache: Path, name: str, version: str) -> str:
    """SPDX's name of the licence in a module's source; empty if the source is missing, or the licence unknown."""
    escaped = re.sub(r"[A-Z]", lambda letter: f"!{letter[0].lower()}", f"{name}@{version}")
    for file in (cache / escaped / each for each in _LICENCE_FILES):
        if file.is_file():
            return licence_of_text(file.read_text(errors="replace"))
    return ""


def licence_of_text(text: str) -> str:
    """SPDX's name of a licence, from its text; empty for an unknown licence, or several licences in one file."""
    words = " ".join(text.split())
    found = [name for name, parts in _LICENCE_TEXTS.items() if all(part in words for part in parts)]
    if found[-2:] == ["BSD-3-Clause", "BSD-2-Clause"]:
        found.pop()
    return found[0] if len(found) == 1 else ""

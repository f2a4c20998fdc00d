"""The Python packages of the locks; the Debian packages that we installed on this machine, and those in images."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path

from infra import agreed, docker
from infra.audit.trusted import Kind, Trusted, Unknown
from infra.process import CommandError, output

LOCKS = (
    "requirements.lock",
    "requirements-board.lock",
    "requirements-browser.lock",
    "requirements-plots.lock",
    "requirements-sweep.lock",
    "requirements-workflows.lock",
    "toolchain/images/gpu-base.lock",
)
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
_HASH = re.compile(r"--hash=(sha256:[0-9a-f]{64})")
_CLASSIFIER = "License :: "
# A field `License` that holds a whole text tells no name.
LONGEST = 60
LISTED = "${db:Status-Abbrev}\t${Package}\t${Version}\n"
# What a package's file `copyright` names, where it follows Debian's format.
LICENCES = "cd /usr/share/doc && grep -H '^License: ' */copyright"


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


def on_host(environment: Mapping[str, str] = os.environ) -> Iterator[Trusted]:
    """The packages that our record names and that are installed."""
    record = Path(environment.get(agreed.MACHINE) or agreed.USUAL_MACHINE) / "packages"
    try:
        ours = set(record.read_text().split())
        listed = output("dpkg-query", "--show", f"--showformat={LISTED}") if ours else ""
    except (OSError, CommandError):
        return
    said = _or_nothing("sh", "-c", LICENCES)
    yield from (each for each in _packages(listed, said, "this machine") if each.name in ours)


def in_image(image: str) -> Iterator[Trusted | Unknown]:
    """The packages of an image of the engine; nothing for an image without dpkg. Raises CommandError."""
    if not docker.has_image(image):
        yield Unknown(image, "it is not on this machine, so that its packages are not known")
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
    """From dpkg's list. It knows no checksum: apt has compared it before the package was unpacked."""
    named: dict[str, set[str]] = {}
    for package, name in re.findall(r"^([^/]+)/copyright:License: (.+)$", licences, re.MULTILINE):
        named.setdefault(package, set()).add(name.strip())
    for line in listed.splitlines():
        state, name, version = line.split("\t")
        if state.strip() == "ii":
            licence = ", ".join(sorted(named.get(name, ())))
            yield Trusted(kind=Kind.DEBIAN, name=name, version=version, licence=licence, place=place)

"""One trusted thing: a package, module or image that others made, and what this machine knows of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The kinds of trusted things, by the plural that the list prints."""

    PYTHON = "Python packages"
    GO = "Go modules"
    DEBIAN = "Debian packages"
    IMAGE = "images"


@dataclass(frozen=True, kw_only=True)
class Trusted:
    """A trusted thing. An unknown property stays empty and counts as a gap: nothing is guessed.

    Parameters:
        kind: what it is.
        name: in its own index or registry.
        version: or an image's tag.
        checksums: each with its algorithm, `sha256:...` or `h1:...` (Go's). Of a Python package one for each file.
        licence: an SPDX expression where its maker wrote one, else the maker's own words.
        place: what names it: a file, or an image that holds it.
    """

    kind: Kind
    name: str
    version: str
    checksums: tuple[str, ...] = ()
    licence: str = ""
    place: str

    def gaps(self) -> list[str]:
        """Names of the properties that are not known."""
        known = {"version": self.version, "checksum": self.checksums, "licence": self.licence}
        return [name for name, value in known.items() if not value]


@dataclass(frozen=True)
class Unknown:
    """Something that this machine cannot look into, and why."""

    name: str
    reason: str

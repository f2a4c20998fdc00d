"""The Go modules that the tools are built from: those that each go.mod names, linked into the program or not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from infra.audit.trusted import Kind, Trusted
from infra.process import CommandError, output

FOLDER = Path("toolchain") / "tools" / "go"
_REQUIRED = re.compile(r"^(?:require )?\s*(\S+) (v\S+)(?: // indirect)?$", re.MULTILINE)
_REPLACED = re.compile(r"^(?:replace )?\s*(\S+)(?: v\S+)? => (\S+) (v\S+)$", re.MULTILINE)
# SPDX's name -> words that stand in that licence's text and in no other of these.
_TEXTS: Mapping[str, tuple[str, ...]] = {
    "Apache-2.0": ("Apache License", "Version 2.0, January 2004"),
    "MPL-2.0": ("Mozilla Public License", "ersion 2.0"),
    "MIT": ("Permission is hereby granted, free of charge, to any person obtaining a copy",),
    "ISC": ("Permission to use, copy, modify, and",),
    "BSD-3-Clause": ("Redistribution and use in source and binary forms", "endorse or promote products"),
    "BSD-2-Clause": ("Redistribution and use in source and binary forms",),
}
_FILES = ("LICENSE", "LICENSE.txt", "LICENSE.md", "LICENCE", "COPYING", "License", "license")


def required(root: Path) -> Iterator[Trusted]:
    """Each module once, with Go's own checksum of it. `root`: the clone's folder."""
    cache = module_cache()
    seen: set[tuple[str, str]] = set()
    for file in sorted((root / FOLDER).glob("*/go.mod")):
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
                    licence=licence(cache, *module) if cache else "",
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


def licence(cache: Path, name: str, version: str) -> str:
    """SPDX's name of the licence in a module's source; empty where it is not here, or of another kind."""
    escaped = re.sub(r"[A-Z]", lambda letter: f"!{letter[0].lower()}", f"{name}@{version}")
    for file in (cache / escaped / each for each in _FILES):
        if file.is_file():
            return of_text(file.read_text(errors="replace"))
    return ""


def of_text(text: str) -> str:
    """SPDX's name of a licence by its words; empty for one that is not known, or for several in one file."""
    words = " ".join(text.split())
    found = [name for name, parts in _TEXTS.items() if all(part in words for part in parts)]
    if found[-2:] == ["BSD-3-Clause", "BSD-2-Clause"]:
        found.pop()
    return found[0] if len(found) == 1 else ""

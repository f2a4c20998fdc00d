"""`python -m infra.audit <file>`: lists what is trusted, names the gaps, and writes the bill of materials.

Further arguments are references of images that the caller knows of.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from infra import docker, paths
from infra.agreed import listed
from infra.audit import images, modules_of_tools, sbom, software_packages
from infra.audit.trusted import Kind, Trusted, Unknown
from infra.process import CommandError

SHOWN = 6
"""How many names of a gap are shown; the bill has all."""


def collect(root: Path, environment: Mapping[str, str], others: Iterable[str]) -> Iterator[Trusted | Unknown]:
    """All that is trusted, and what cannot be looked into. `root`: the clone's folder; `others`: images."""
    yield from software_packages.locked(root)
    yield from modules_of_tools.required(root)
    yield from images.published(root, *others)
    yield from software_packages.on_host(environment)
    try:
        docker.ensure_answers()
    except docker.EngineError:
        yield Unknown("images of this machine", "no container engine answers")
        return
    for reference, image in images.local(environment).items():
        yield image
        yield from software_packages.in_image(reference)


def lines(found: Iterable[Trusted | Unknown]) -> Iterator[str]:
    """How many of each kind, then the gaps."""
    things = [each for each in found if isinstance(each, Trusted)]
    unknown = [each for each in found if isinstance(each, Unknown)]
    for kind in Kind:
        yield f"{sum(each.kind is kind for each in things):6}  {kind}"
    for kind in Kind:
        for gap in ("version", "checksum", "licence"):
            names = [_shown(each) for each in things if each.kind is kind and gap in each.gaps()]
            if names:
                yield f"gap: {len(names)} {kind} without a {gap}: {listed(names, SHOWN)}"
    yield from (f"gap: {each.name}: {each.reason}" for each in unknown)


def _shown(thing: Trusted) -> str:
    return f"{thing.name}:{thing.version}" if thing.kind is Kind.IMAGE and thing.version else thing.name


def main(arguments: list[str]) -> int:
    """Write the bill to the file that the first argument names; the exit status. Gaps are no failure."""
    target, *others = arguments
    try:
        found = list(collect(paths.ROOT, os.environ, others))
        bill = sbom.document(each for each in found if isinstance(each, Trusted))
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        Path(target).write_text(bill)
    except (CommandError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print("\n".join(lines(found)))
    print(f"written: {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

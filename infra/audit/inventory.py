"""Lists what is trusted, names the gaps, and writes the bill of materials: for `make audit`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from infra import docker
from infra.agreed import listed
from infra.audit import images, modules_of_tools, sbom, software_packages
from infra.audit.trusted import Kind, Trusted, Unknown

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


def write(root: Path, target: str, environment: Mapping[str, str], *others: str) -> None:
    """Write the bill to the file `target` of the clone in `root`, and print the list. As `collect`.

    Raises CommandError, and OSError.
    """
    found = list(collect(root, environment, others))
    file = root / target
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(sbom.document(each for each in found if isinstance(each, Trusted)))
    print("\n".join(lines(found)))
    print(f"written: {target}")

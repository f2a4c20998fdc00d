"""The list of trusted software, its gaps, and the software bill of materials: CycloneDX 1.6 in JSON (ECMA-424)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

from infra import docker
from infra.agreed import listed
from infra.audit import images, trusted
from infra.audit.trusted import Kind, Trusted, Unknown

# https://github.com/package-url/purl-spec
PURL = {Kind.PYTHON: "pypi", Kind.GO: "golang", Kind.DEBIAN: "deb", Kind.IMAGE: "docker"}
DISTRIBUTION = "trainstack"
SHOWN = 6
"""How many names the printed list shows for each gap; the bill of materials has all names."""


def document(things: Iterable[Trusted]) -> str:
    """The bill of materials. Unknown properties are left out."""
    components = [_component(number, each) for number, each in enumerate(things)]
    bom = Bom(components=components)
    bom.metadata.component = Component(
        name=DISTRIBUTION,
        version=metadata.version(DISTRIBUTION),
        type=ComponentType.APPLICATION,
        bom_ref=DISTRIBUTION,
    )
    bom.register_dependency(bom.metadata.component, components)
    return str(make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=2))


def _component(number: int, thing: Trusted) -> Component:
    group, _, name = thing.name.rpartition("/")
    namespace = "debian" if thing.kind is Kind.DEBIAN else group or None
    hashes, others = _checksums(thing)
    return Component(
        name=thing.name,
        version=thing.version or None,
        type=ComponentType.CONTAINER if thing.kind is Kind.IMAGE else ComponentType.LIBRARY,
        bom_ref=f"{number}",
        purl=PackageURL(PURL[thing.kind], namespace, name, thing.version or None),
        licenses=[LicenseFactory().make_from_string(thing.licence)] if thing.licence else [],
        hashes=hashes,
        properties=[Property(name="trainstack:place", value=thing.place), *others],
    )


def _checksums(thing: Trusted) -> tuple[list[HashType], list[Property]]:
    """The checksums of `thing`: the hash of one file, or else properties.

    CycloneDX has no place for the hashes of several files, or for Go's hash of a list of files.
    """
    if len(thing.checksums) == 1 and thing.checksums[0].startswith("sha256:"):
        return [HashType(alg=HashAlgorithm.SHA_256, content=thing.checksums[0].partition(":")[2])], []
    return [], [Property(name="trainstack:checksum", value=each) for each in thing.checksums]


def collect(root: Path, environment: Mapping[str, str], others: Iterable[str]) -> Iterator[Trusted | Unknown]:
    """All trusted software, and images that cannot be read. `root`: the clone's folder; `others`: more images."""
    yield from trusted.locked(root)
    yield from trusted.modules(root)
    yield from images.published(root, *others)
    yield from trusted.on_host(environment)
    try:
        docker.ensure_answers()
    except docker.EngineError:
        yield Unknown("images of this machine", "no container engine answers")
        return
    for reference, image in images.local(environment).items():
        yield image
        yield from trusted.in_image(reference)


def lines(found: Iterable[Trusted | Unknown]) -> Iterator[str]:
    """The lines to print: how much software of each kind is in `found`, then the gaps."""
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
    """Write the bill to the file `target` of the clone in `root`, and print the list. `others`: as for `collect`.

    Raises CommandError, and OSError.
    """
    found = list(collect(root, environment, others))
    file = root / target
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(document(each for each in found if isinstance(each, Trusted)))
    print("\n".join(lines(found)))
    print(f"written: {target}")

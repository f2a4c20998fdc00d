"""The list as a software bill of materials: CycloneDX 1.6 in JSON (ECMA-424)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import metadata

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

from infra.audit.trusted import Kind, Trusted

# https://github.com/package-url/purl-spec
PURL = {Kind.PYTHON: "pypi", Kind.GO: "golang", Kind.DEBIAN: "deb", Kind.IMAGE: "docker"}
DISTRIBUTION = "trainstack"


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
    return Component(
        name=thing.name,
        version=thing.version or None,
        type=ComponentType.CONTAINER if thing.kind is Kind.IMAGE else ComponentType.LIBRARY,
        bom_ref=f"{number}",
        purl=PackageURL(PURL[thing.kind], namespace, name, thing.version or None),
        licenses=[LicenseFactory().make_from_string(thing.licence)] if thing.licence else [],
        hashes=list(_hashes(thing)),
        properties=[Property(name="trainstack:place", value=thing.place), *_others(thing)],
    )


def _is_of_one_file(thing: Trusted) -> bool:
    """CycloneDX knows the hashes of one file: not of a package's several, and not Go's, which is of a list."""
    return len(thing.checksums) == 1 and thing.checksums[0].startswith("sha256:")


def _hashes(thing: Trusted) -> Iterator[HashType]:
    if _is_of_one_file(thing):
        yield HashType(alg=HashAlgorithm.SHA_256, content=thing.checksums[0].partition(":")[2])


def _others(thing: Trusted) -> Iterator[Property]:
    for checksum in () if _is_of_one_file(thing) else thing.checksums:
        yield Property(name="trainstack:checksum", value=checksum)

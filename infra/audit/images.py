"""The container images that our files name, and the images that this machine's engine uses instead of them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from infra import docker
from infra.audit.trusted import Kind, Trusted
from infra.config import shell_variables
from infra.image.inputs import DOCKERFILE
from infra.process import CommandError, output

# The files that name the default images, and the form of a line that names one.
FILES = (
    DOCKERFILE,
    "examples/*/Dockerfile",
    "infra/clusters/kind/component.py",
    "infra/training_operator/patches.py",
)
NAMED = re.compile(r'^(?:ARG [A-Z]+_BASE=|[A-Z]+_IMAGE = ")(?P<reference>[^\s"]+)"?$', re.MULTILINE)


_DIGEST = re.compile(r"^Digest: (sha256:[0-9a-f]{64})$", re.MULTILINE)


def named(root: Path) -> Iterator[tuple[str, str]]:
    """Each image reference in FILES of the clone `root`, with its file's path relative to `root`."""
    for pattern in FILES:
        for file in sorted(root.glob(pattern)):
            for line in NAMED.finditer(file.read_text()):
                yield line["reference"], str(file.relative_to(root))


def published(root: Path, *others: str) -> Iterator[Trusted]:
    """The images that the program uses by default.

    Parameters:
        root: the clone's folder.
        others: further references from the caller.
    """
    for reference, place in [*named(root), *((other, "named by the caller") for other in others)]:
        yield image(reference, place)


def image(reference: str, place: str) -> Trusted:
    """An image by its reference. If the reference has no digest, the image's checksum counts as a gap."""
    tagged, _, digest = reference.partition("@")
    name, colon, tag = tagged.rpartition(":")
    if not colon or "/" in tag:  # a port's colon
        name, tag = tagged, ""
    return Trusted(
        kind=Kind.IMAGE, name=name, version=tag, checksums=(digest,) if digest else (), place=place
    )


def local(environment: Mapping[str, str]) -> dict[str, Trusted]:
    """Reference -> the image that this machine's engine has instead of a published one.

    An image's checksum is its id in the engine. Variables in `environment` name the images. Raises CommandError.
    """
    found: dict[str, Trusted] = {}
    for variable in shell_variables.IMAGES:
        reference = environment.get(variable, "")
        if reference and docker.has_image(reference):
            identity = output("docker", "image", "inspect", "--format", "{{.Id}}", reference).strip()
            name, _, tag = reference.partition("@")[0].rpartition(":")
            found[reference] = Trusted(
                kind=Kind.IMAGE, name=name, version=tag, checksums=(identity,), place=variable
            )
    return found


def lock(root: Path, reference: str, file: str) -> str:
    """Pull the image `reference`, and add its digest to this reference wherever `file` has it.

    Parameters:
        root: the clone's folder.
        reference: `name:tag`, as the file spells it.
        file: relative to `root`.

    Returns the digest. If the registry has one image for each architecture, this is the digest of their list. Raises
    CommandError if the image cannot be pulled, and OSError if the file cannot be written.
    """
    pulled = _DIGEST.search(output("docker", "pull", reference))
    if not pulled:
        raise CommandError(f"`docker pull {reference}` has printed no digest")
    path = root / file
    path.write_text(NAMED.sub(lambda line: _with(line, reference, pulled[1]), path.read_text()))
    return pulled[1]


def _with(line: re.Match[str], reference: str, digest: str) -> str:
    start, end = line.span("reference")
    before, after = line.string[line.start() : start], line.string[end : line.end()]
    return f"{before}{reference}@{digest}{after}" if line["reference"] == reference else line[0]


def lock_all(root: Path) -> int:
    """Add the missing digests. Returns the exit status, 1 if a digest is still missing. Raises EngineError.

    An existing digest stays: a newer one is a separate decision.
    """
    open_ones = [(reference, file) for reference, file in named(root) if "@" not in reference]
    if not open_ones:
        print("every image that the files name has a digest")
        return 0
    docker.ensure_answers()
    failed = 0
    for reference, file in open_ones:
        try:
            print(f"{file}: {reference}@{lock(root, reference, file)}")
        except (CommandError, OSError) as error:
            print(f"{file}: {reference} still has no digest: {error}", file=sys.stderr)
            failed += 1
    if failed < len(open_ones):
        print(
            "now run `make review STACK=NAME` for each stack, and commit the renderings together with this change"
        )
    return 1 if failed else 0

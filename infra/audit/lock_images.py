"""Writes the digest of each base image beside its tag, as its registry has it: for `make lock-images`.

A digest that is there stays: to change it is a decision of its own. Nothing is guessed, so it works only
where an engine reaches the registries.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from infra import docker
from infra.audit import images
from infra.process import CommandError, output

_DIGEST = re.compile(r"^Digest: (sha256:[0-9a-f]{64})$", re.MULTILINE)


def lock(root: Path, reference: str, file: str) -> str:
    """Pull an image by its tag and write its digest beside it, wherever `file` names it so.

    Parameters:
        root: the clone's folder.
        reference: `name:tag`, as the file spells it.
        file: relative to `root`.

    Returns the digest, of the list of all architectures where the registry has one. Raises CommandError where the image
    cannot be pulled, and OSError where the file cannot be written.
    """
    pulled = _DIGEST.search(output("docker", "pull", reference))
    if not pulled:
        raise CommandError(f"`docker pull {reference}` named no digest")
    path = root / file
    path.write_text(images.NAMED.sub(lambda line: _with(line, reference, pulled[1]), path.read_text()))
    return pulled[1]


def _with(line: re.Match[str], reference: str, digest: str) -> str:
    start, end = line.span("reference")
    before, after = line.string[line.start() : start], line.string[end : line.end()]
    return f"{before}{reference}@{digest}{after}" if line["reference"] == reference else line[0]


def lock_all(root: Path) -> int:
    """Lock what has no digest yet; the exit status, 1 where something keeps none. Raises EngineError."""
    open_ones = [(reference, file) for reference, file in images.named(root) if "@" not in reference]
    if not open_ones:
        print("every base has a digest")
        return 0
    docker.ensure_answers()
    failed = 0
    for reference, file in open_ones:
        try:
            print(f"{file}: {reference}@{lock(root, reference, file)}")
        except (CommandError, OSError) as error:
            print(f"{file}: {reference} keeps no digest: {error}", file=sys.stderr)
            failed += 1
    if failed < len(open_ones):
        print("now write the renderings anew, `make review STACK=…` for each stack, and commit them together")
    return 1 if failed else 0

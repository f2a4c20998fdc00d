"""Where a planted word could have got to on a running stack: each place piece by piece, and how it may be written."""

from __future__ import annotations

import base64
import json
import subprocess
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator

from infra.clusters import registries
from tests.e2e.project import Project

PIECE = 1 << 20
Pieces = Iterator[tuple[str, Iterator[bytes]]]
"""Name of what is looked at -> its content, piece by piece."""
# Written while the cluster works, and held in memory or for root alone: the nodes' own copies of a pod's environment.
LOGS_OF_A_NODE = ("/var/log",)
# What every clone has, and a virtual environment with other people's packages.
LEFT_OUT = (".venv", ".git/objects")


def writings(word: str) -> list[bytes]:
    """The word as it is, and within text that somebody has encoded whole: base64 has three ways to write it there."""
    shifted = [base64.b64encode(b"\0" * shift + word.encode()) for shift in range(3)]
    # The first letters and the last hold bits of the neighbours, too.
    inner = [text[4 if shift else 0 :].rstrip(b"=")[:-1] for shift, text in enumerate(shifted)]
    return [word.encode(), word.encode().hex().encode(), *inner]


def having(pieces: Pieces, words: Iterable[str]) -> list[str]:
    """Names of those in which one of `words` stands in any writing."""
    wanted = [each for word in words for each in writings(word)]
    return [name for name, content in pieces if stands_in(content, wanted)]


def stands_in(content: Iterator[bytes], wanted: list[bytes]) -> bool:
    """Whether one of `wanted` stands in the content, also across two pieces."""
    longest = max(map(len, wanted))
    before = b""
    for piece in content:
        text = before + piece
        if any(each in text for each in wanted):
            return True
        before = text[-longest:]
    return False


def files(project: Project) -> Pieces:
    """All files of the clone: its states with their backups and history, renderings, logs, and the volume's."""
    for path in sorted(project.root.rglob("*")):
        name = path.relative_to(project.root).as_posix()
        if path.is_file() and not path.is_symlink() and not name.startswith(LEFT_OUT):
            with path.open("rb") as file:
                yield name, iter(lambda file=file: file.read(PIECE), b"")  # type: ignore[misc]


def states(project: Project) -> Pieces:
    """The state as Pulumi exports it, and what it tells of each update; `files` has those before, as they are kept."""
    for command in (["history", "--json"], ["export"]):
        told = project.run("pulumi", "stack", *command, "--stack", project.stack).stdout
        yield " ".join(["pulumi stack", *command]), iter([told.encode()])


def objects(project: Project) -> Pieces:
    """Every object of every kind that the cluster lists, events among them; Secrets by themselves."""
    listed = ["kubectl", "api-resources", "--verbs=list", "--output=name"]
    for kind in sorted(set(project.run(*listed).stdout.split())):
        told = project.run(
            "kubectl", "get", kind, "--all-namespaces", "--output=json", "--show-managed-fields"
        )
        for each in json.loads(told.stdout)["items"]:
            metadata = each["metadata"]
            name = f"{each['kind']}/{metadata.get('namespace', '')}/{metadata.get('name', '')}"
            yield name, iter([json.dumps(each).encode()])


def logs(project: Project) -> Pieces:
    """What every container has printed, and what the node keeps of it and of itself."""
    for pod in json.loads(project.run("kubectl", "get", "pods", "--all-namespaces", "--output=json").stdout)[
        "items"
    ]:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        words = ["--namespace", namespace, "--all-containers", "--tail=-1"]
        yield (
            f"log of {name}",
            iter([project.run("kubectl", "logs", name, *words, check=False).stdout.encode()]),
        )
    for node in project.run("kind", "get", "nodes", "--name", project.cluster).stdout.split():
        for folder in LOGS_OF_A_NODE:
            yield from _archive(project, node, folder)


def registry(project: Project) -> Pieces:
    """Every blob of the cluster's registry: manifests, configurations, and layers unpacked."""
    yield from _archive(project, registries.kind_name(project.cluster), "/var/lib/registry")


def _archive(project: Project, container: str, folder: str) -> Pieces:
    """The files below a folder of a container."""
    command = ["docker", "cp", f"{container}:{folder}", "-"]
    with subprocess.Popen(command, env=project.environment(), stdout=subprocess.PIPE) as copying:
        assert copying.stdout
        with tarfile.open(fileobj=copying.stdout, mode="r|") as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isreg() else None
                if content:
                    yield f"{container}:{member.name}", _unpacked(lambda file=content: file.read(PIECE))  # type: ignore[misc]
            copying.stdout.read()
    assert copying.returncode == 0, f"{container}:{folder} cannot be read"


def _unpacked(read: Callable[[], bytes]) -> Iterator[bytes]:
    """The content; of a gzip file what is packed in it."""
    piece = read()
    if not piece.startswith(b"\x1f\x8b"):
        while piece:
            yield piece
            piece = read()
        return
    unpacking = zlib.decompressobj(wbits=31)
    while piece:
        yield unpacking.decompress(piece)
        piece = read()
    yield unpacking.flush()

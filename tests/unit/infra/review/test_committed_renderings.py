"""The committed renderings are those of the committed stacks: `make review STACK=<stack>` makes them so."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from infra import paths
from infra.config import from_file
from infra.review import folder

STACKS = sorted((paths.ROOT / "stacks").glob("Pulumi.*.yaml"))


@functools.cache
def wanted(path: Path) -> Mapping[str, str]:
    """Path below stacks/ -> contents."""
    return folder.files(from_file(path))


@pytest.mark.parametrize("path", STACKS, ids=lambda path: path.stem)
def test_is_up_to_date(path: Path) -> None:
    name = path.stem.removeprefix("Pulumi.")
    difference = folder.stale(folder.STACKS, name, wanted(path))
    assert difference == "", f"run `make review STACK={name}` and commit what it changes:\n{difference}"


def test_nothing_else_lies_below_stacks() -> None:
    """Whoever applies a folder would apply it, too."""
    known = {name for path in STACKS for name in [str(path.relative_to(folder.STACKS)), *wanted(path)]}
    listed = subprocess.check_output(["git", "ls-files", "stacks"], cwd=paths.ROOT, text=True).split()
    assert {name.removeprefix("stacks/") for name in listed} == known


ASKING_NOBODY = """
import os, socket, sys
from pathlib import Path

LOOKS = {"connect", "getaddrinfo", "gethostbyname", "gethostbyaddr", "sendto", "sendmsg"}
STARTS = {"subprocess.Popen", "os.posix_spawn", "os.fork", "os.exec", "os.system"}

def refuse(event, given):
    if event in STARTS or event in {f"socket.{each}" for each in LOOKS}:
        sys.exit(f"{event} {given}")

sys.addaudithook(refuse)
seen = []
for ask in (lambda: socket.create_connection(("127.0.0.1", 1)), lambda: os.system("true")):
    try:
        ask()
    except SystemExit as refused:
        seen.append(str(refused).partition(" ")[0])
assert seen == ["socket.getaddrinfo", "os.system"], "whoever asks is seen"

from infra.review import __main__ as rendering, page as pages, request

base, root, *stacks = sys.argv[1:]
page = f"{root}/page.md"
for stack in stacks:
    assert rendering.main([stack, "--into", root, "--base", base, "--page", page]) == 0
    assert rendering.main([stack, "--into", root, "--check"]) == 0
request.write(Path(page), pages.Base(Path("/dev/null"), "main"), "0123")
"""
"""Ends where anything is asked: an address looked up, a connection begun, another program started."""


def test_a_rendering_and_its_pages_ask_nobody(tmp_path: Path) -> None:
    """By a process of its own: Python takes no audit hook away again."""
    names = [path.stem.removeprefix("Pulumi.") for path in STACKS]
    words = [sys.executable, "-c", ASKING_NOBODY, str(folder.STACKS), str(tmp_path), *names]
    done = subprocess.run(words, cwd=paths.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

"""What has been fetched once is enough: a new clone is set up with the network cut."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from toolchain.paths import TOOL_MODULES
from toolchain.tools import build, go_modules, venv

ROOT = Path(__file__).resolve().parents[2]
SET_UP = "from toolchain.operating import setup; setup.prepare_pulumi()"
CUT = ("unshare", "--net", "--map-root-user")


def set_up(clone: Path, *before: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*before, sys.executable, "-c", SET_UP], cwd=clone, capture_output=True, text=True, env=os.environ
    )


@pytest.mark.slow(reason="it installs every Python package into two new clones")
def test_a_second_clone_needs_no_network(tmp_path: Path) -> None:
    clones = [tmp_path / name for name in ("with", "without")]
    for clone in clones:
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    fetched = set_up(clones[0])
    assert fetched.returncode == 0, fetched.stderr
    routes = subprocess.run(
        [*CUT, "cat", "/proc/net/route"], capture_output=True, text=True, check=True
    ).stdout
    assert not routes.splitlines()[1:], "or this test shows nothing"  # beside the head of the table
    done = set_up(clones[1], *CUT)
    assert done.returncode == 0, done.stderr
    bare: list[str | Path] = [
        clones[1] / ".venv" / "bin" / "python",
        "-c",
        "import pulumi, pydantic, infra, storage",
    ]
    subprocess.run(bare, cwd=tmp_path, check=True)


def test_an_empty_cache_is_filled_from_the_index(tmp_path: Path) -> None:
    """The first set-up of a machine: uv's try with its cache alone fails, and what it leaves is in nobody's way."""
    lock = tmp_path / "requirements.lock"
    entry = re.search(r"^idna==.*(\n    --hash.*)+", venv.LOCK.read_text(), re.MULTILINE)
    assert entry
    lock.write_text(entry[0])
    code = "import sys; from pathlib import Path; from toolchain.tools import venv; "
    code += "venv.ensure_beside(*map(Path, sys.argv[1:]))"
    variables = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "caches")}
    folder = tmp_path / "environment"
    for _ in range(2):  # from nothing, and over what another Python left
        command: list[str | Path] = [sys.executable, "-c", code, folder, lock]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=variables)
        assert done.returncode == 0, done.stderr
        subprocess.run([folder / "bin" / "python", "-c", "import idna"], check=True)
        (folder / "bin" / "python").unlink()
        (folder / venv.STAMP_NAME).unlink()


def test_the_modules_of_a_tool_that_was_built_need_no_network() -> None:
    """So that a build that somebody removed is made again from what Go has kept."""
    module = go_modules.load("kind")
    build.build("kind")
    variables = {**os.environ, "GOFLAGS": "-mod=readonly", "GOPROXY": "off"}
    listed = subprocess.run(
        ["go", "list", "-deps", *module.packages],
        cwd=TOOL_MODULES / "kind",
        env=variables,
        capture_output=True,
        text=True,
    )
    assert listed.returncode == 0, listed.stderr

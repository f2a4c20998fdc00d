"""Building tools, with a Go that only pretends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.conftest import Fake
from tests.unit.toolchain.conftest import Machine
from toolchain.steps import SetupError
from toolchain.tools import build
from toolchain.tools.go_modules import CALLED_AS

# `go build -o FOLDER/ package…` writes one file for each package.
GO = """
case "$1" in
env) echo go1.26.1 ;;
build)
  while [ "$1" != -o ]; do shift; done
  out="$2"; shift 2; mkdir -p "$out"
  for package in "$@"; do echo program > "$out/${package##*/}"; done
  SLEEP
  ;;
esac
"""


def test_a_build_lands_in_the_cache_and_is_not_repeated(cache: Path, fake: Fake) -> None:
    fake("go", GO.replace("SLEEP", ""))
    folder = build.build("kind")
    assert (folder / "kind").exists()
    assert folder.is_relative_to(cache)
    fake("go", "exit 1")
    assert build.build("kind") == folder


def test_a_file_that_is_several_programs_gets_a_link_for_each(cache: Path, fake: Fake) -> None:
    fake("go", GO.replace("SLEEP", ""))
    folder = build.build("kubernetes")
    links = {each.name: str(each.readlink()) for each in folder.iterdir() if each.is_symlink()}
    assert links == dict.fromkeys(CALLED_AS["kubernetes"], "kubernetes")


def test_one_program_of_a_whole_build_needs_no_build_of_its_own(cache: Path, fake: Fake) -> None:
    fake("go", GO.replace("SLEEP", ""))
    whole = build.build("kubernetes")
    assert build.build("kubernetes", "kubectl") == whole


def test_a_failed_build_leaves_no_tool_and_shows_what_go_said(cache: Path, fake: Fake) -> None:
    fake("go", 'case "$1" in env) echo go1.26.1;; *) echo "no such module"; exit 1;; esac')
    with pytest.raises(SetupError, match="no such module"):
        build.build("kind")
    assert build.built("kind") is None


def test_a_killed_build_leaves_no_tool_and_the_next_run_builds_it(machine: Machine) -> None:
    code = "from toolchain.tools import build; print(build.build('kind'))"
    machine.program("go", GO.replace("SLEEP", "exec sleep 60"))
    killed = subprocess.Popen(
        [sys.executable, "-c", code], cwd=machine.root, env=machine.environment(), stderr=subprocess.DEVNULL
    )
    while not any(call.startswith("build") for call in machine.called("go")):
        assert killed.poll() is None
    killed.kill()
    killed.wait()

    machine.program("go", GO.replace("SLEEP", ""))
    done = machine.python(code)

    assert done.returncode == 0, done.stderr
    assert (Path(done.stdout.strip()) / "kind").exists()
    tools = machine.home / ".cache" / "trainstack" / "tools"
    assert [path.name for path in tools.iterdir() if path.is_dir()] == [Path(done.stdout.strip()).parent.name]


def test_two_runs_at_once_build_once(machine: Machine) -> None:
    machine.program("go", GO.replace("SLEEP", "sleep 0.5"))
    code = "from toolchain.tools import build; build.build('kind')"
    runs = [
        subprocess.Popen([sys.executable, "-c", code], cwd=machine.root, env=machine.environment())
        for _ in range(2)
    ]
    assert [run.wait() for run in runs] == [0, 0]
    assert len([call for call in machine.called("go") if call.startswith("build")]) == 1


@pytest.mark.parametrize("version", ["go1.19.8", "go1.24.1"])
def test_an_old_go_is_refused_with_its_version(fake: Fake, version: str) -> None:
    fake("go", f"echo {version}")
    with pytest.raises(SetupError, match=version.removeprefix("go")):
        build.check_go()


@pytest.mark.parametrize("version", ["go1.25", "go1.25.0", "go1.26.8", "devel go1.27-abc"])
def test_a_go_that_can_build_the_tools_is_taken(fake: Fake, version: str) -> None:
    fake("go", f"echo {version}")
    build.check_go()


def test_a_missing_go_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetupError, match="Go is not installed"):
        build.check_go()


def test_files_of_a_module_need_go_too_and_it_says_so(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Images can be pulled where upstream's manifests are in a Go module alone."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetupError, match=r"files of example\.org/module are needed, and Go is not installed"):
        build.source("kueue", "example.org/module", "manifests")

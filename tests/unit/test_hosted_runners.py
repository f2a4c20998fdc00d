"""The workflow file that tries this project on hosted runners: what can be tried of it without one."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from toolchain.paths import LINKS, ROOT, STANDINS
from toolchain.tools import build, go_modules

FILE = ROOT / "ci" / "github" / "test.yml"
WORKFLOW: dict[str, Any] = yaml.safe_load(FILE.read_text())
JOBS: dict[str, dict[str, Any]] = WORKFLOW["jobs"]


def steps(job: str) -> list[str]:
    """The command of each step of `job` that has one."""
    return [step["run"] for step in JOBS[job]["steps"] if "run" in step]


def machines(job: str) -> list[str]:
    runs_on = JOBS[job]["runs-on"]
    return JOBS[job]["strategy"]["matrix"]["runner"] if "matrix" in runs_on else [runs_on]


def actions(job: str) -> dict[str, dict[str, Any]]:
    """Name of each action of `job`, without its version -> what it is given."""
    used = (step for step in JOBS[job]["steps"] if "uses" in step)
    return {step["uses"].partition("@")[0]: step.get("with", {}) for step in used}


def test_the_suite_is_what_ci_runs_on_both_architectures() -> None:
    assert ".ci/run" in steps("suite")
    for job in ("suite", "docker"):
        assert {name.endswith("-arm") for name in machines(job)} == {True, False}


def test_each_starting_point_that_a_hosted_runner_can_be_has_its_job() -> None:
    assert JOBS.keys() == {"suite", "docker", "debian", "microk8s", "macos"}
    images = JOBS["debian"]["strategy"]["matrix"]["image"]
    assert [name.partition("@")[0] for name in images] == ["debian:12", "debian:13"]
    assert all(name.startswith("macos-") for name in machines("macos"))
    assert any("make up STACK=microk8s" in step for step in steps("microk8s"))


@pytest.mark.parametrize("job", [name for name in JOBS if "pulumi/actions" in actions(name)])
def test_pulumi_is_the_one_that_is_built_here_and_its_own_plugins_are_looked_for(job: str) -> None:
    assert actions(job)["pulumi/actions"] == {"pulumi-version": "${{ env.OF_PULUMI }}"}
    assert WORKFLOW["env"]["OF_PULUMI"] == go_modules.load("pulumi").version
    assert "ci/own-plugins" in steps(job)


@pytest.mark.parametrize("job", [name for name in JOBS if "actions/setup-go" in actions(name)])
def test_go_is_new_enough(job: str) -> None:
    version = actions(job)["actions/setup-go"]["go-version"]
    assert tuple(map(int, version.split("."))) >= build.GO_NEEDED


def test_docker_alone_needs_neither_go_nor_root() -> None:
    assert "actions/setup-go" not in actions("docker")
    assert not any("sudo" in step for step in steps("docker"))


def test_debian_gets_what_readme_asks_for_and_no_more() -> None:
    installed = re.search(r"--no-install-recommends (.*)", steps("debian")[0])
    assert installed
    # README's Python and make; the others are what a clone is fetched with.
    assert set(installed[1].split()) == {"python3", "make", "git", "ca-certificates"}


class Clone:
    """A folder with the script and the stand-ins, in which set-up has made no link yet."""

    def __init__(self, root: Path) -> None:
        self.links = root / LINKS.relative_to(ROOT)
        for place in (Path("ci/own-plugins"), STANDINS.relative_to(ROOT)):
            copy = shutil.copytree if (ROOT / place).is_dir() else shutil.copy2
            (root / place).parent.mkdir(parents=True, exist_ok=True)
            copy(ROOT / place, root / place)
        self.script = root / "ci" / "own-plugins"

    def link(self, name: str, program: str | Path, on_path: bool = True) -> None:
        """As set-up does; `on_path` says whether the shell of `make env` has it."""
        place = self.links / name / name
        place.parent.mkdir(parents=True)
        place.symlink_to(program)
        shown = f'export PATH={place.parent if on_path else "/nowhere"}:"$$PATH"'
        (self.links.parents[1] / "Makefile").write_text(f"env:\n\t@echo '{shown}'\n")

    def look(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run([self.script], capture_output=True, text=True)


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


def test_before_any_set_up_nothing_is_said_to_be_well(clone: Clone) -> None:
    done = clone.look()
    assert (done.returncode, done.stdout) == (1, "nothing is set up here: run make up first\n")


def test_tools_of_ours_are_no_stand_ins(clone: Clone) -> None:
    clone.link("kubectl", "/bin/true")
    assert clone.look().returncode == 0


@pytest.mark.parametrize("on_path", [True, False])
@pytest.mark.parametrize("name", sorted(path.name for path in STANDINS.iterdir()))
def test_each_stand_in_that_a_shell_takes_is_told(clone: Clone, name: str, on_path: bool) -> None:
    clone.link(name, STANDINS / name, on_path)
    done = clone.look()
    told = f"{name} is a stand-in, not Pulumi's own plugin\n" if on_path else ""
    assert (done.returncode, done.stdout) == (int(on_path), told)

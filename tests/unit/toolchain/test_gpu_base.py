"""Which base the GPU image gets: the user's, the published one, the one that was made here, a new one."""

from __future__ import annotations

import dataclasses
import itertools
import platform
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from infra import agreed
from tests.unit.toolchain.conftest import ROOT, Machine
from toolchain.images import base, gpu_base
from toolchain.machine import preflight
from toolchain.machine.engine import Engine
from toolchain.steps import SetupError
from toolchain.tools import venv

OURS = {agreed.GPU_BASE: gpu_base.IMAGE}


@dataclasses.dataclass
class Place:
    """An engine and what it can reach; `asked` and `made` are what was done."""

    pulled: bool
    built: bool
    reached: bool
    asked: int = 0
    made: int = 0

    def succeeds(self, _engine: Engine, kind: str, _verb: str, name: str) -> bool:
        assert name == gpu_base.published()
        if kind == "image":
            return self.pulled
        self.asked += 1
        return self.reached

    def has_image(self, _engine: Engine, name: str) -> bool:
        assert name == gpu_base.IMAGE
        return self.built

    def make(self, _engine: Engine) -> None:
        self.made += 1


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Place]:
    def make(pulled: bool, built: bool, reached: bool, own: str) -> Place:
        place = Place(pulled, built, reached)
        monkeypatch.setattr(Engine, "succeeds", lambda self, *words: place.succeeds(self, *words))
        monkeypatch.setattr(Engine, "has_image", lambda self, name: place.has_image(self, name))
        monkeypatch.setattr(gpu_base, "make", place.make)
        monkeypatch.setattr("toolchain.machine.locks.MACHINE", tmp_path)
        monkeypatch.setenv(agreed.GPU_BASE, own)
        return place

    return make


ENGINE = Engine("docker", ours=False)


@pytest.mark.parametrize("own", ["", "mine/gpu:1", gpu_base.IMAGE])
@pytest.mark.parametrize(("pulled", "built", "reached"), list(itertools.product((True, False), repeat=3)))
def test_the_published_base_comes_before_ours(
    at: Callable[..., Place], pulled: bool, built: bool, reached: bool, own: str
) -> None:
    """The user's own comes before either. What has been built is used without asking again."""
    place = at(pulled, built, reached, own)
    chosen = own == "mine/gpu:1"
    found = gpu_base.ensure(ENGINE)
    nothing_here = not (chosen or pulled or built)
    assert found == ({} if chosen or pulled or (reached and not built) else OURS)
    assert place.asked == (1 if nothing_here else 0)
    assert place.made == (1 if nothing_here and not reached else 0)
    assert gpu_base.known(ENGINE) == (OURS if built and not pulled and not chosen else {})


def test_it_says_in_one_line_that_it_is_made(
    at: Callable[..., Place], capsys: pytest.CaptureFixture[str]
) -> None:
    at(pulled=False, built=False, reached=False, own="")
    gpu_base.ensure(ENGINE)
    (line,) = capsys.readouterr().err.splitlines()
    assert "the published base of the GPU image" in line
    assert "cannot be pulled; it is built from PyPI's CUDA wheels, 4.1 GB" in line


@dataclasses.dataclass
class Maker:
    """A machine on which a base can be made; `done` is what was done, in its order."""

    cache: Path
    done: list[str] = dataclasses.field(default_factory=list)
    fails: str = ""

    def output(self, _engine: Engine, verb: str, *arguments: str) -> str:
        self.note(" ".join([verb, *arguments]))
        return {"info": "/var/lib/docker", "create": "made"}.get(verb, "")

    def run(self, command: list[str | Path], **_: object) -> None:
        words = [str(word) for word in command]
        self.note(" ".join(words[1:3] if "pip" in words else words[1:]))
        if "pip" in words:
            Path(words[words.index("--target") + 1]).mkdir(parents=True)

    def note(self, what: str) -> None:
        self.done.append(what)
        if self.fails and what.startswith(self.fails):
            raise SetupError(f"{what} fails")


@pytest.fixture
def maker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Maker:
    made = Maker(tmp_path)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(gpu_base, "cache", lambda: tmp_path)
    monkeypatch.setattr(gpu_base, "run", made.run)
    monkeypatch.setattr(Engine, "output", lambda self, *arguments: made.output(self, *arguments))
    monkeypatch.setattr(base, "ensure", lambda engine, system, log: "debian")
    monkeypatch.setattr(venv, "find_uv", lambda: Path("/opt/uv"))
    monkeypatch.setattr(
        preflight, "check_space", lambda grows: made.note(" ".join(f"room {path}" for path, _ in grows))
    )
    return made


def test_it_is_made_in_a_container_of_the_cpu_base(maker: Maker) -> None:
    gpu_base.make(ENGINE)
    wheels = maker.cache / "gpu-wheels"
    assert maker.done == [
        "info --format {{.DockerRootDir}}",
        f"room {wheels} room /var/lib/docker",
        "pip install",
        f"create --volume {wheels}/packages:/mnt/packages:ro --volume {gpu_base.INSTALL}:/mnt/install.sh:ro "
        "debian sh /mnt/install.sh 3.13",
        "start --attach made",
        f'commit --change CMD ["bash"] made {gpu_base.IMAGE}',
        "rm --force --volumes made",
    ]
    assert not wheels.exists()


@pytest.mark.parametrize("step", ["room", "pip install", "create", "start", "commit"])
def test_whatever_fails_no_container_stays(maker: Maker, step: str) -> None:
    maker.fails = step
    with pytest.raises(SetupError, match=f"{step}.* fails"):
        gpu_base.make(ENGINE)
    created = any(each.startswith("create") for each in maker.done) and step != "create"
    assert ("rm --force --volumes made" in maker.done) == created
    maker.fails = ""
    gpu_base.make(ENGINE)


def test_another_processor_is_refused_before_anything_is_done(
    maker: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(SetupError, match="PyPI has CUDA wheels only for x86_64"):
        gpu_base.make(ENGINE)
    assert maker.done == []


@pytest.mark.parametrize(("stack", "target"), [("dev", "cpu"), ("gpu", "gpu")])
def test_only_a_stack_that_builds_on_it_asks_for_it(machine: Machine, stack: str, target: str) -> None:
    shutil.copy2(ROOT / "Dockerfile_training", machine.root)
    text = f"config: {{trainstack:image: {{target: {target}}}, trainstack:job: {{name: x}}}}\n"
    (machine.root / "stacks" / f"Pulumi.{stack}.yaml").write_text(text)
    machine.program("docker", 'case "$1 $2" in "image inspect") exit 1;; esac')
    code = "from concurrent.futures import Future; from toolchain.operating import environment, setup; "
    code += "from toolchain.machine import engine; from toolchain.tools import venv; "
    code += "venv.is_complete = lambda: True; "
    code += f"done = Future(); done.set_result(None); print(setup._gpu_base('{stack}', engine.find(), done))"
    done = machine.python(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "{}\n", "the registry is reached"
    asked = [call for call in machine.called("docker") if call.startswith("manifest")]
    assert asked == ([f"manifest inspect {gpu_base.published()}"] if target == "gpu" else [])

"""What `make up` says at its beginning about how long it takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.cluster_kinds import ClusterKind
from toolchain.images import cluster_images
from toolchain.machine import engine, processes
from toolchain.operating import environment, time_estimate
from toolchain.tools import build, installed, venv

EVERY = sorted({*installed.MODULES.values(), *cluster_images.BUILT})


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """One that has everything, and no times yet."""
    monkeypatch.setattr(time_estimate, "FILE", tmp_path / "times.json")
    monkeypatch.setattr(build, "built", lambda module, *_: tmp_path)
    monkeypatch.setattr(
        installed, "choose", lambda: {name: installed.Choice(name, None) for name in installed.MODULES}
    )
    monkeypatch.setattr(venv, "is_complete", lambda: True)
    monkeypatch.setattr(engine, "find", lambda: None)
    return monkeypatch


def test_every_tool_that_is_built_has_a_first_guess() -> None:
    assert sorted(time_estimate.BUILD_S) == sorted([*EVERY, "kubectl"])


def test_a_cold_start_says_how_long_why_and_how_to_make_it_short(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(build, "built", lambda module, *_: None)
    machine.setattr(venv, "is_complete", lambda: False)
    machine.setattr(processes, "cores", lambda: 2)
    machine.setattr(environment, "cluster_kind", lambda stack: ClusterKind.KIND)
    first, second = time_estimate.estimate("dev").splitlines()
    assert "this start takes about 13 min" in first
    assert all(name in first for name in EVERY)
    assert "the Python packages" in first
    assert "to shorten this start:" in second


def test_a_cluster_that_is_there_is_known_before_the_packages(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(build, "built", lambda module, *_: None)
    machine.setattr(venv, "is_complete", lambda: False)
    machine.setattr(processes, "cores", lambda: 2)
    first, _ = time_estimate.estimate("existing").splitlines()
    assert "this start takes about 7 min: it builds kubectl, pulumi, training-operator from source" in first


@pytest.mark.parametrize(
    ("cores", "minutes"), [(32, 4), (2, 13)], ids=["the images take as long as ever", "2"]
)
def test_more_cores_need_less_time(machine: pytest.MonkeyPatch, cores: int, minutes: int) -> None:
    machine.setattr(processes, "cores", lambda: cores)
    assert f"about {minutes} min" in time_estimate.cold_start(EVERY, packages=False, pulls=False)


def test_packages_alone_need_no_advice(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(venv, "is_complete", lambda: False)
    assert "the Python packages" in time_estimate.estimate("dev")
    assert "shorter" not in time_estimate.estimate("dev")


@pytest.mark.parametrize("missing", [(), ("kubectl",), ("kind",), ("pulumi", "kubectl")])
@pytest.mark.parametrize("pulls", [True, False])
def test_what_can_be_pulled_is_not_said_to_be_built(
    machine: pytest.MonkeyPatch, missing: tuple[str, ...], pulls: bool
) -> None:
    own = {
        name: installed.Choice(name, None if name in missing else Path(name)) for name in installed.MODULES
    }
    machine.setattr(installed, "choose", lambda: own)
    machine.setattr(build, "built", lambda module, *_: None)
    machine.setattr(engine, "find", lambda: engine.Engine("docker", ours=False))
    machine.setattr(cluster_images, "has_published", lambda _: False)
    machine.setattr(cluster_images, "published", lambda *_: pulls)
    machine.setattr(environment, "cluster_kind", lambda stack: ClusterKind.KIND)
    said = time_estimate.estimate("dev")
    built = {name for name in EVERY if name in said.splitlines()[0].replace("kubectl", "kubernetes")}
    if not pulls:
        assert built == {*(installed.MODULES[name] for name in missing), *cluster_images.BUILT}
        return
    assert built == {installed.MODULES[name] for name in missing if name != "kubectl"}
    assert "pulls images" in said
    machine.setattr(cluster_images, "has_published", lambda _: True)
    assert "images" not in time_estimate.estimate("dev")


def test_a_warm_start_tells_of_the_last(machine: pytest.MonkeyPatch) -> None:
    assert time_estimate.estimate("dev") == ""
    machine.setattr(time_estimate, "phase_times", lambda: [("pulumi up", 54.0)])
    time_estimate.keep("dev", 76.0)
    assert time_estimate.estimate("dev") == "   the last `make up` of dev here took 76 s"
    assert time_estimate.estimate("gpu") == ""
    assert time_estimate.last_times()["pulumi up"] == 54.0


def test_a_start_that_has_built_tools_tells_nothing_of_the_next(machine: pytest.MonkeyPatch) -> None:
    """The next one said that the last took 14 min, and took six seconds."""
    for name in EVERY:
        machine.setattr(time_estimate, "phase_times", lambda name=name: [(f"{build.STEP}{name} 1.0", 300.0)])
        time_estimate.keep("dev", 900.0)
        assert time_estimate.estimate("dev") == ""
        assert time_estimate.last_times() == {
            f"{build.STEP}{each} 1.0": 300.0 for each in EVERY[: EVERY.index(name) + 1]
        }


@pytest.mark.parametrize("content", ["", "[]", "{", '{"make up dev": "x"}'])
def test_a_broken_file_tells_nothing(machine: pytest.MonkeyPatch, content: str) -> None:
    time_estimate.FILE.write_text(content)
    assert time_estimate.estimate("dev") == ""


def test_a_full_disk_is_no_failure(machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine.setattr(time_estimate, "FILE", tmp_path / "missing" / "times.json")
    time_estimate.keep("dev", 1.0)

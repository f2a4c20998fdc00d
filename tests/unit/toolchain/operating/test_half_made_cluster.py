"""What a killed `make up` left of a cluster is removed from its own engine, and not forgotten elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from infra import paths
from infra.clusters.kind import ownership
from toolchain.machine.engine import Engine
from toolchain.operating import leftovers
from toolchain.steps import SetupError

Fake = Callable[[str, str], Path]


@pytest.fixture
def engine(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Engine]:
    """An engine of that id and host, without containers; cluster `c` was begun in the first one asked for."""
    monkeypatch.setattr(paths, "STATE", tmp_path)
    monkeypatch.setattr(leftovers, "CLUSTERS", tmp_path / "clusters")

    def answering(number: str, host: str) -> Engine:
        answers = f"case $1 in info) echo '{number} /data' ;; context) echo {host} ;; esac"
        docker = fake("docker", answers)
        if not leftovers.marker("c").exists():
            ownership.write_marker("c")
        return Engine(str(docker), ours=False)

    return answering


@pytest.mark.parametrize(
    "present",
    [("AA", "unix:///a"), ("AA", "ssh://reached-otherwise"), ("BB", "unix:///a")],
    ids=["the same", "by another way", "made anew in the same place"],
)
def test_nothing_of_it_is_left_in_its_own_engine(
    engine: Callable[..., Engine], present: tuple[str, str]
) -> None:
    engine("AA", "unix:///a")
    leftovers.remove(engine(*present), "c")
    assert not leftovers.marker("c").exists()


def test_another_engine_does_not_make_it_forgotten(engine: Callable[..., Engine]) -> None:
    engine("AA", "unix:///a")
    with pytest.raises(
        SetupError, match=r"(?s)cluster c was made in .*unix:///a.*export DOCKER_HOST=unix:///a"
    ):
        leftovers.remove(engine("BB", "unix:///b"), "c")
    assert leftovers.marker("c").exists()


@pytest.mark.parametrize("text", ["", '{"id": "one"}'])
def test_a_marker_that_names_no_engine_goes(engine: Callable[..., Engine], text: str) -> None:
    present = engine("AA", "unix:///a")
    leftovers.marker("c").write_text(text)
    leftovers.remove(present, "c")
    assert not leftovers.marker("c").exists()

"""What a killed `make up` left of a cluster is removed from its own engine; a finished cluster stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra import paths
from infra.clusters import foreign_objects, selection
from infra.clusters.kind import ownership, registry
from infra.clusters.kind.ownership import Standing
from infra.clusters.replacement import ReplacementRefusedError
from tests.unit.infra.clusters.kind.standin import Engine, given

STAYS = (Standing.FINISHED, Standing.UNTOLD)


@pytest.fixture(autouse=True)
def removed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The registries that were removed."""
    found: list[str] = []
    monkeypatch.setattr(registry, "delete", found.append)
    monkeypatch.setattr(foreign_objects, "titles", lambda address, stack: ["namespaces/precious"])
    return found


@pytest.mark.parametrize("standing", [each for each in Standing if each not in STAYS])
def test_what_is_left_goes_and_is_forgotten(engine: Engine, removed: list[str], standing: Standing) -> None:
    before = given(engine, standing)
    selection.remove_unfinished("c", "dev")
    assert engine.nodes == (before if standing is Standing.OTHERS else [])
    assert removed == ["c-registry"]
    assert not paths.marker("c").exists()


@pytest.mark.parametrize("standing", STAYS)
def test_a_cluster_that_may_be_in_use_stays(engine: Engine, removed: list[str], standing: Standing) -> None:
    before = given(engine, standing)
    told = paths.marker("c").exists() and paths.marker("c").read_text()
    with pytest.raises(ReplacementRefusedError) as refused:
        selection.remove_unfinished("c", "dev")
    said = str(refused.value)
    for part in ("namespaces/precious", "nothing was touched", "ADOPT=", "kind delete cluster --name c"):
        assert part in said
    assert engine.nodes == before
    assert (engine.called("kind"), removed) == ([], [])
    assert (paths.marker("c").exists() and paths.marker("c").read_text()) == told


@pytest.mark.parametrize("text", ["", '{"id": "one"}'])
def test_a_marker_that_names_no_engine_goes_with_the_nodes(engine: Engine, text: str) -> None:
    paths.marker("c").parent.mkdir(parents=True)
    paths.marker("c").write_text(text)
    selection.remove_unfinished("c", "dev")
    assert not paths.marker("c").exists()


def test_nodes_of_another_clone_keep_theirs(engine: Engine, tmp_path: Path) -> None:
    before = given(engine, Standing.OTHERS)
    ownership.begin("c")
    selection.remove_unfinished("c", "dev")
    assert engine.nodes == before

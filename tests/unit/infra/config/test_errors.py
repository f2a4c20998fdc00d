"""Wrong stack files, run in this process: each is refused before anything is registered.

`tests/preview` runs the same table through Pulumi itself.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import pulumi
import pytest

from infra import paths
from tests.unit.infra.config.wrong_stacks import CASES
from tests.unit.infra.recorder import Recorder, hand_over

PROGRAM = Path(paths.__file__).parent / "__main__.py"


@pytest.mark.parametrize("name", CASES)
def test_is_refused(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    recorder = Recorder()
    monkeypatch.setattr(paths, "DATA", tmp_path / "data")
    monkeypatch.setattr("infra.operators.manifests", lambda stack, planned: [])
    pulumi.runtime.set_mocks(recorder, project="trainstack", stack="dev", preview=True)
    monkeypatch.setattr(pulumi, "get_root_directory", lambda: str(tmp_path))
    monkeypatch.setenv("PULUMI_CONFIG", "")
    hand_over(CASES[name].sections, tmp_path)
    with pytest.raises(pulumi.RunError) as refused:
        runpy.run_path(str(PROGRAM), run_name="__main__")
    CASES[name].check(str(refused.value))
    assert recorder.registered == [], "nothing is registered"


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 30

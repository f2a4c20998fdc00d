"""Wrong stack files, run in this process: each is refused before anything is registered.

`tests/preview` runs a row of each form through Pulumi itself; test_extends.py, with its values in a base.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.infra.config.wrong_stacks import CASES, refusal


@pytest.mark.parametrize("name", CASES)
def test_is_refused(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    CASES[name].check(refusal(CASES[name].sections, tmp_path, monkeypatch))

"""The page of `make compare`, in a real browser."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.browser import chromium
from toolchain.machine.engine import Engine
from toolchain.runs import comparison, records


def test_nothing_is_wrong_with_two_runs_over_each_other(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MODELS", tmp_path / "models")
    for name, count in (("mnist-1", 30), ("mnist-2", 600)):
        run = tmp_path / "models" / "dev" / "runs" / name
        run.mkdir(parents=True)
        numbers = {"lr": 0.01, "images_per_s": 5000, "accuracy": 0.9, "test_loss": 0.00123456}
        lines = [{"step": step, "loss": 2.3 / (step + 1), **numbers} for step in range(count)]
        (run / records.METRICS).write_text("\n".join(map(json.dumps, lines)))
    page = tmp_path / "page.html"
    page.write_text(comparison.page(records.find("mnist-1"), records.find("mnist-2")))
    seen = chromium.look(engine, page)
    assert seen.faults() == []
    for view in seen.views:
        assert len(view["curves"]) == 2 * len(comparison.CURVES)
        assert all(length > 0 for length in view["curves"])
        assert "dev/mnist-1 (solid) and dev/mnist-2 (dashed)" in view["text"]

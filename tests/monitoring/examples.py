"""What `make status --metrics` tells of a stack where everything that it can tell is there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from toolchain.operating import environment, prometheus_text, status
from toolchain.operating.status import Finding, Health, Part
from toolchain.runs import records

RUNS = (("mnist", 0.97), ("cnn", 0.5))


def job(name: str, *conditions: str) -> dict[str, Any]:
    return {
        "kind": "PyTorchJob",
        "metadata": {
            "name": name,
            "namespace": "kubeflow",
            "creationTimestamp": datetime.now(UTC).isoformat(),
        },
        "status": {
            "conditions": [{"type": each, "status": "True"} for each in conditions],
            "replicaStatuses": {"Master": {"succeeded": 1}, "Worker": {"failed": 1}},
        },
    }


def whole(folder: Path, patch: pytest.MonkeyPatch, *, down: Sequence[Part] = ()) -> str:
    """The metrics of a stack `dev` on kind with two runs; the parts `down` are not healthy.

    Parameters:
        folder: for the runs' files.
    """
    patch.setattr(records, "MODELS", folder)
    patch.setattr(environment, "cluster_access", lambda stack: SimpleNamespace(models_are_here=True))
    for name, accuracy in RUNS:
        run = folder / "dev" / "runs" / f"{name}-1"
        run.mkdir(parents=True, exist_ok=True)
        line = f'{{"epoch": 2, "accuracy": {accuracy}, "test_loss": 0.1, "training_s": 20.5}}\n'
        (run / "metrics.jsonl").write_text(line)
        (run / "mnist_cnn.pt").write_text("weights")
    findings = [
        Finding(part, Health.NOT if part in down else Health.HEALTHY, "")
        for part in Part
        if part is not Part.JOB
    ]
    findings += status.inspect_objects([job("mnist", "Created", "Running"), job("cnn", "Created", "Failed")])
    return prometheus_text.text("dev", [each for each in findings if each.what is not Part.OWNER])

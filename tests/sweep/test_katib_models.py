"""The rendered Experiment has the shape of Katib's API, by the models that Katib makes of it for its clients.

Katib's own CRD lets any key stand (`x-kubernetes-preserve-unknown-fields`), so its API server would refuse nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from infra.sweep import katib
from tests.unit.infra.samples import JOB, stack

CHECK = """
import json, sys
from kubeflow_katib_api.models.v1beta1_experiment import V1beta1Experiment
given = json.load(sys.stdin)
print(json.dumps(V1beta1Experiment.from_dict(given).to_dict()))
"""
OPTIONS = {
    "training.lr": {"min": 0.001, "max": 0.3, "log": True},
    "training.epochs": {"min": 1, "max": 4},
    "training.batchSize": [32, 64],
}


def read_by_katib(experiment: dict[str, Any], models: str) -> subprocess.CompletedProcess[str]:
    """What Katib's models take of `experiment`, as JSON: a key that they do not know is left out."""
    return subprocess.run(
        [sys.executable, "-c", CHECK],
        input=json.dumps(experiment),
        capture_output=True,
        text=True,
        env={"PYTHONPATH": models},
    )


def rendered() -> dict[str, Any]:
    return katib.experiment(stack(job=JOB, sweep={"options": OPTIONS}))


def test_katib_knows_every_key_and_its_type(katib_models: str) -> None:
    experiment = rendered()
    done = read_by_katib(experiment, katib_models)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == experiment


def misspell(spec: dict[str, Any]) -> None:
    spec["maxTrials"] = spec.pop("maxTrialCount")


def misspell_inside(spec: dict[str, Any]) -> None:
    spec["trialTemplate"]["parameters"] = spec["trialTemplate"].pop("trialParameters")


def give_a_number_for_a_text(spec: dict[str, Any]) -> None:
    spec["parameters"][0]["feasibleSpace"] = {"min": 0.001, "max": 0.3}


def give_a_text_for_a_number(spec: dict[str, Any]) -> None:
    spec["parallelTrialCount"] = "2"


@pytest.mark.parametrize(
    "change", [misspell, misspell_inside, give_a_number_for_a_text, give_a_text_for_a_number]
)
def test_another_shape_is_found(change: Callable[[dict[str, Any]], None], katib_models: str) -> None:
    experiment = rendered()
    change(experiment["spec"])
    done = read_by_katib(experiment, katib_models)
    assert done.returncode or json.loads(done.stdout) != experiment

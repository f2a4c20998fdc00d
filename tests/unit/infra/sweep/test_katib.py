"""A search as Katib's Experiment: its trials are the jobs that `make sweep` would make, by Katib's parameters."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from infra.config import ConfigError, Stack
from infra.config.sweep_space import KEYS
from infra.config.sweep_trials import Trial, job
from infra.image.component import rendered_reference
from infra.job.context import context
from infra.job.manifest import manifest, run_of
from infra.review.rendering import rendered_datasets
from infra.sweep import katib
from tests.unit.infra.samples import JOB, stack

OPTIONS = {
    "training.lr": {"min": 0.001, "max": 0.3, "log": True},
    "training.momentum": {"min": 0.1, "max": 0.9},
    "training.epochs": {"min": 1, "max": 4},
    "training.batchSize": [32, 64],
}
REFERENCE = re.compile(r"\$\{trialParameters\.(\w+)\}")
EXAMPLES = {"lr": "0.02", "momentum": "0.5", "epochs": "2", "batchSize": "64"}
WITHOUT_COMMAND = {key: value for key, value in JOB.items() if key != "command"}


def of(template: dict[str, Any] = JOB, options: Any = OPTIONS, **others: Any) -> Stack:
    return stack(job=template, sweep={"options": options, **others})


def submitted(experiment: dict[str, Any], name: str, values: dict[str, str]) -> dict[str, Any]:
    """The job of the trial `name`, as Katib makes it: every reference replaced, named and put into its namespace."""
    template = experiment["spec"]["trialTemplate"]
    given = {}
    for each in template["trialParameters"]:
        is_own = each["reference"] == "${trialSpec.Name}"
        given[each["name"]] = name if is_own else values[each["reference"]]
    text = REFERENCE.sub(lambda found: given[found[1]], json.dumps(template["trialSpec"]))
    made: dict[str, Any] = json.loads(text)
    made["metadata"] |= {"name": name, "namespace": experiment["metadata"]["namespace"]}
    return made


@pytest.mark.parametrize("template", [JOB, WITHOUT_COMMAND, {**JOB, "args": ["--no-cuda"]}])
def test_a_trial_is_the_job_that_make_sweep_would_make(template: dict[str, Any]) -> None:
    found = of(template)
    assert found.sweep
    values = {f"training.{key}": json.loads(value) for key, value in EXAMPLES.items()}
    trial = job(found.jobs[0], found.sweep, found.storage.mount_path, found.file, Trial(7, values))
    wanted = manifest(trial, context(found, rendered_reference(found), rendered_datasets(found)[JOB["name"]]))
    text = json.dumps(wanted).replace(run_of(wanted), trial.name)  # Katib's trials have their names for runs
    assert submitted(katib.experiment(found), trial.name, EXAMPLES) == json.loads(text)


@pytest.mark.parametrize("key", KEYS)
def test_every_option_reaches_the_command_once(key: str) -> None:
    low = 1 if "lr" not in key and "gamma" not in key and "momentum" not in key else 0.1
    found = katib.experiment(of(options={key: [low, low / 2 if isinstance(low, float) else 3]}))
    text = json.dumps(found["spec"]["trialTemplate"]["trialSpec"])
    name = key.removeprefix("training.")
    used = REFERENCE.findall(text)
    assert used.count(name) == 2, "in the command of master and worker"
    assert {each["name"] for each in found["spec"]["trialTemplate"]["trialParameters"]} == {*used}


def test_the_space_is_katibs() -> None:
    assert katib.experiment(of())["spec"]["parameters"] == [
        {"name": "batchSize", "parameterType": "discrete", "feasibleSpace": {"list": ["32", "64"]}},
        {"name": "epochs", "parameterType": "int", "feasibleSpace": {"min": "1", "max": "4"}},
        {
            "name": "lr",
            "parameterType": "double",
            "feasibleSpace": {"min": "0.001", "max": "0.3", "distribution": "logUniform"},
        },
        {"name": "momentum", "parameterType": "double", "feasibleSpace": {"min": "0.1", "max": "0.9"}},
    ]


@pytest.mark.parametrize(
    ("objective", "kind", "other"), [("accuracy", "maximize", "loss"), ("loss", "minimize", "accuracy")]
)
def test_the_objective_is_read_from_the_log(objective: str, kind: str, other: str) -> None:
    spec = katib.experiment(of(objective=objective, trials=7, parallel=3))["spec"]
    assert (spec["objective"]["type"], spec["objective"]["objectiveMetricName"]) == (kind, objective)
    assert spec["objective"]["additionalMetricNames"] == [other]
    assert spec["metricsCollectorSpec"] == {"collector": {"kind": "StdOut"}}
    assert (spec["maxTrialCount"], spec["parallelTrialCount"]) == (7, 3)


@pytest.mark.parametrize(("trials", "parallel", "at_once"), [(2, 5, 2), (5, 5, 5), (5, 2, 2)])
def test_no_more_trials_run_at_once_than_there_are(trials: int, parallel: int, at_once: int) -> None:
    """Katib's webhook refuses a parallelTrialCount above maxTrialCount."""
    spec = katib.experiment(of(trials=trials, parallel=parallel))["spec"]
    assert (spec["maxTrialCount"], spec["parallelTrialCount"]) == (trials, at_once)


def test_katib_names_the_job_itself_and_finds_rank_0() -> None:
    template = katib.experiment(of())["spec"]["trialTemplate"]
    assert not {"name", "namespace"} & template["trialSpec"]["metadata"].keys()
    assert template["primaryPodLabels"] == {"training.kubeflow.org/job-role": "master"}
    elastic = {
        **JOB,
        "replicas": {"master": None, "worker": 2},
        "elasticPolicy": {"minReplicas": 1, "maxReplicas": 2},
    }
    template = katib.experiment(of(elastic))["spec"]["trialTemplate"]
    assert template["primaryPodLabels"] == {
        "training.kubeflow.org/replica-type": "worker",
        "training.kubeflow.org/replica-index": "0",
    }


def test_trainjobs_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"operator\.api = 'v2'"):
        katib.experiment(stack(job=JOB, sweep={"options": OPTIONS}, operator={"api": "v2"}))

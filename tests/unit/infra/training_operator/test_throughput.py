"""How many jobs an operator handles at once, in the arguments and settings of either API's controller."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from infra.clusters.discovery import ClusterContents
from infra.config import ConfigError
from infra.trainer_controller import patches
from infra.training_operator.plan import plan
from tests.unit.infra.samples import stack

ALL = {"concurrency": 7, "qps": 70, "burst": 140}
UPSTREAM = """\
kind: Configuration
controller:
  groupKindConcurrency:
    TrainJob.trainer.kubeflow.org: 5
    TrainingRuntime.trainer.kubeflow.org: 1
clientConnection:
  qps: 50
  burst: 100
statusServer:
  qps: 5
"""


def settings(*, reports: bool = False, **given: Any) -> dict[str, Any]:
    upstream = {
        "kind": "ConfigMap",
        "metadata": {"name": patches.SETTINGS},
        "data": {patches.SETTINGS_FILE: UPSTREAM},
    }
    found = patches.configuration(upstream, stack(operator={"api": "v2", **given}).operator, reports)
    return dict(yaml.safe_load(found["data"][patches.SETTINGS_FILE]))


def test_the_trainers_settings_have_what_is_given_and_keep_the_rest() -> None:
    plain = yaml.safe_load(UPSTREAM)
    assert settings() == plain
    changed = settings(concurrency=7, qps=70, burst=140)
    assert changed["controller"]["groupKindConcurrency"].pop("TrainJob.trainer.kubeflow.org") == 7
    assert changed["clientConnection"] == {"qps": 70, "burst": 140}
    assert changed["statusServer"] == plain["statusServer"]
    assert changed["controller"]["groupKindConcurrency"] == {"TrainingRuntime.trainer.kubeflow.org": 1}
    assert settings(qps=70)["clientConnection"] == {"qps": 70, "burst": 100}
    assert settings(reports=True) == {**plain, "featureGates": {patches.REPORTS_GATE: True}}


def test_other_settings_start_the_trainer_anew() -> None:
    """It reads them at its start."""
    upstream = {
        "metadata": {"name": patches.TRAINER},
        "spec": {"template": {"metadata": {}, "spec": {"containers": [{"readinessProbe": {}}]}}},
    }
    read = [
        patches.deployment(upstream, stack(operator={"api": "v2", **given}).operator, False)["spec"][
            "template"
        ]
        for given in ({}, {"qps": 70}, {"qps": 71}, {"burst": 70})
    ]
    templates = [str(each["metadata"]) for each in read]
    assert templates[0] == "{}"
    assert len({*templates}) == len(templates)


@pytest.mark.parametrize("key", ALL)
@pytest.mark.parametrize("install", ["auto", "never"])
def test_a_key_that_somebody_elses_operator_would_not_heed_is_refused(key: str, install: str) -> None:
    theirs = ClusterContents(crd=True, operator=True, namespaces=frozenset({"kubeflow"}))
    asked = stack(operator={"install": install, key: ALL[key]})
    with pytest.raises(
        ConfigError,
        match=rf"(?s)trainstack:operator.{key} = {ALL[key]}\b.*somebody else.*fix: remove the key",
    ):
        plan(asked, theirs)


def test_nothing_is_refused_where_the_operator_is_the_stacks_own() -> None:
    assert plan(stack(operator=ALL), ClusterContents()).operator
    assert plan(stack(operator={"install": "always", **ALL}), ClusterContents(problem="away")).operator

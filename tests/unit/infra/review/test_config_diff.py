"""What waits in a stack file, told from the configuration in Pulumi's history."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import paths
from infra.config.errors import ConfigError
from infra.review.key_changes import config_diff

STACKS = sorted((paths.ROOT / "stacks").glob("Pulumi.*.yaml"))
JOB = {"name": "mnist", "training": {"epochs": 1}}


def file_with(folder: Path, config: dict[str, Any]) -> Path:
    file = folder / "Pulumi.dev.yaml"
    file.write_text(yaml.safe_dump({"config": config}))
    return file


@pytest.mark.parametrize("file", STACKS, ids=lambda file: file.stem)
def test_a_stack_that_was_applied_as_it_is_has_nothing_waiting(file: Path) -> None:
    assert config_diff(file, yaml.safe_load(file.read_text())["config"]) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"training": {"epochs": 2}}, ["job.training.epochs: 1 -> 2 (job replaced)"]),
        ({"egress": []}, ["job.egress: not set -> [] (in place)"]),
        (
            {"runPolicy": {"schedulingPolicy": {}}},
            ["job.runPolicy.schedulingPolicy: not set -> {} (job replaced)"],
        ),
        ({"queue": "high"}, ['job.queue: not set -> "high" (job replaced)']),
        (
            {
                "pod": {
                    "metadata": {"labels": {"example.org/team": "vision"}},
                    "spec": {
                        "priorityClassName": None,
                        "containers": [{"name": "pytorch", "env": [{"name": "NCCL_DEBUG", "value": "INFO"}]}],
                        "tolerations": [{"key": "spot"}],
                        "topologySpreadConstraints": [{"$patch": "replace"}],
                    },
                }
            },
            [
                'job.pod.metadata.labels.example.org/team: not set -> "vision" (job replaced)',
                'job.pod.spec.containers[pytorch].env[NCCL_DEBUG].value: not set -> "INFO" (job replaced)',
                'job.pod.spec.priorityClassName: not set -> "(removed)" (job replaced)',
                'job.pod.spec.tolerations: not set -> [{"key": "spot"}] (job replaced)',
                'job.pod.spec.topologySpreadConstraints[$patch].$patch: not set -> "replace" (job replaced)',
            ],
        ),
        (
            {"annotations": {"team": "x" * 80}},
            [f'job.annotations: {{}} -> {{"team": "{"x" * 50}… (job replaced)'],
        ),
    ],
)
def test_each_changed_key_is_told_with_what_it_does(
    tmp_path: Path, changes: dict[str, Any], said: list[str]
) -> None:
    file = file_with(tmp_path, {"trainstack:job": {**JOB, **changes}})
    assert config_diff(file, {"trainstack:job": JOB}) == said


def test_of_an_encrypted_value_only_that_it_is_another(tmp_path: Path) -> None:
    before, after = ({**JOB, "env": {"TOKEN": {"secure": f"v1:{word}:{word}"}}} for word in ("old", "new"))
    (line,) = config_diff(file_with(tmp_path, {"trainstack:job": after}), {"trainstack:job": before})
    assert line.count('"TOKEN": "encrypted ') == 2
    assert "old" not in line
    assert "new" not in line
    assert config_diff(file_with(tmp_path, {"trainstack:job": before}), {"trainstack:job": before}) == []


def test_a_default_that_is_written_out_is_no_change(tmp_path: Path) -> None:
    file = file_with(tmp_path, {"trainstack:job": JOB, "trainstack:protected": False})
    # Pulumi's history has text for what is no mapping.
    assert config_diff(file, {"trainstack:job": {**JOB, "replicas": {"master": 1}}}) == []
    assert config_diff(file, {"trainstack:job": JOB, "trainstack:protected": "true"}) == [
        "protected: true -> not set (nothing)"
    ]


@pytest.mark.parametrize(
    ("wrong", "applied", "named"),
    [
        ({"epochs": 0}, {}, "Pulumi.dev.yaml"),
        ({}, {"epochs": 0}, "the configuration that was applied"),
    ],
)
def test_what_is_no_configuration_is_not_compared(
    tmp_path: Path, wrong: dict[str, Any], applied: dict[str, Any], named: str
) -> None:
    file = file_with(tmp_path, {"trainstack:job": {**JOB, "training": wrong}})
    with pytest.raises(ConfigError, match=named):
        config_diff(file, {"trainstack:job": {**JOB, "training": applied}})


BASE = {"trainstack:job": {**JOB, "rerun": 1}}
EXTENDS = {"trainstack:extends": "base"}
OVER = {"trainstack:job": {"training": {"epochs": 2}}}
EXTENDING: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "nothing has changed": ({**EXTENDS, **OVER}, {**EXTENDS, **OVER}, []),
    "a key of its own": ({**EXTENDS, **OVER}, EXTENDS, ["job.training.epochs: 2 -> 1 (job replaced)"]),
    "values that moved into the base": ({**EXTENDS, **BASE}, EXTENDS, []),
    "a base that was not there": (
        {"trainstack:job": JOB},
        EXTENDS,
        ['extends: not set -> "base" (another base)', "job.rerun: 0 -> 1 (job replaced)"],
    ),
    "a base that has another name": (
        {"trainstack:extends": "gone", **OVER},
        EXTENDS,
        ['extends: "gone" -> "base" (another base)', "job.training.epochs: 2 -> 1 (job replaced)"],
    ),
    "a base that is extended no longer": (
        EXTENDS,
        {"trainstack:job": JOB},
        ['extends: "base" -> not set (another base)', "job.rerun: 1 -> 0 (job replaced)"],
    ),
    "a base that is gone": (
        {"trainstack:extends": "gone"},
        {"trainstack:job": JOB},
        ['extends: "gone" -> not set (another base)'],
    ),
}
"""What was applied, what the stack file has, and what is told: of the base only that it is another one."""


@pytest.mark.parametrize("case", EXTENDING)
def test_of_a_stack_that_extends_its_own_keys_are_compared(tmp_path: Path, case: str) -> None:
    applied, config, said = EXTENDING[case]
    (tmp_path / "base.yaml").write_text(yaml.safe_dump({"config": BASE}))
    assert config_diff(file_with(tmp_path, config), applied) == said

"""Secrets of a stack file: which forms a variable takes, and that a secret's text is in the Secret alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from infra import stack_plan
from infra.config import ConfigError, encrypted, from_raw
from infra.config.encrypted import restored
from infra.job.manifest import manifest
from infra.job.run_id import run_id
from tests.unit.infra.config.test_changes import KEYS
from tests.unit.infra.recorder import Recorder, recording, run_program
from tests.unit.infra.samples import JOB, job_context, stack

FILE = "stacks/Pulumi.dev.yaml"
WORD = "planted-word"
CIPHER = {"secure": "v1:cipher"}
Run = Callable[..., Recorder]


def container(**job: Any) -> dict[str, Any]:
    wanted = manifest(stack(job={**JOB, **job}).jobs[0], job_context())
    worker = wanted["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
    return dict(worker["containers"][0])


def variable(value: Any) -> dict[str, Any]:
    (found,) = [each for each in container(env={"TOKEN": value})["env"] if each["name"] == "TOKEN"]
    return {key: each for key, each in found.items() if key != "name"}


def of_secret(name: str, key: str) -> dict[str, Any]:
    return {"valueFrom": {"secretKeyRef": {"name": name, "key": key}}}


@pytest.mark.parametrize(
    ("value", "entry"),
    [
        ("plain", {"value": "plain"}),
        ({"secret": "login", "key": "token"}, of_secret("login", "token")),
        (CIPHER, of_secret("pytorch-simple-env", "TOKEN")),
    ],
)
def test_a_variable_has_one_of_three_forms(value: Any, entry: dict[str, Any]) -> None:
    assert variable(value) == entry


def test_whole_secrets_and_config_maps_become_variables() -> None:
    sources = [{"secret": "login"}, {"configMap": "settings", "prefix": "SET_"}]
    assert container(envFrom=sources)["envFrom"] == [
        {"secretRef": {"name": "login"}},
        {"prefix": "SET_", "configMapRef": {"name": "settings"}},
    ]
    assert "envFrom" not in container()


def test_the_run_does_not_tell_of_a_secrets_text() -> None:
    def run(value: Any) -> str:
        return run_id(stack(job={**JOB, "env": {"TOKEN": value}}).jobs[0], job_context())

    assert run(CIPHER) == run({"secure": "another"})
    assert len({run(CIPHER), run("plain"), run({"secret": "login", "key": "token"})}) == 3


def test_a_review_shows_the_secret_without_its_data() -> None:
    known = stack(job={**JOB, "env": {"TOKEN": CIPHER}})
    planned = stack_plan.of(known, stack_plan.reviewed(known))
    objects = [each.manifest for each in planned]
    secret, job = [each.manifest for each in planned if each.phase == stack_plan.of_job("pytorch-simple")]
    assert (secret["kind"], job["kind"]) == ("Secret", "PyTorchJob")
    assert "data" not in secret
    assert secret["metadata"]["annotations"] == {"trainstack/variables": "TOKEN"}
    assert CIPHER["secure"] not in json.dumps(objects) + repr(planned)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Recorder:
    monkeypatch.setattr(pulumi, "get_root_directory", lambda: str(tmp_path))
    return recording(monkeypatch, tmp_path)


@pytest.fixture
def run(recorder: Recorder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Runs the program on a stack file with cipher text, as Pulumi hands it over: the word in plain, and which
    section had it."""

    def of(section: Any, name: str = "job") -> Recorder:
        (tmp_path / FILE).parent.mkdir()
        (tmp_path / FILE).write_text(yaml.safe_dump({"config": {f"trainstack:{name}": section}}))
        plain = json.dumps(section).replace(json.dumps(CIPHER), json.dumps(WORD))
        monkeypatch.setenv("PULUMI_CONFIG", json.dumps({f"trainstack:{name}": plain}))
        if WORD in plain:
            monkeypatch.setenv("PULUMI_CONFIG_SECRET_KEYS", json.dumps([f"trainstack:{name}"]))
        run_program()
        return recorder

    return of


@pytest.mark.parametrize("key", sorted(KEYS - {"job.env"} | {"job.env.TOKEN.secret", "job.unknown"}))
def test_no_other_key_takes_a_secret(key: str) -> None:
    planted = {"secure": WORD}
    for value in (planted, [planted], {"first": planted}):
        section: Any = value
        for name in reversed(key.split(".")):
            section = {name: section}
        with pytest.raises(ConfigError, match=rf"trainstack:{key}\S* = \(secret\)") as refused:
            from_raw("dev", section, FILE)
        assert WORD not in str(refused.value)


@pytest.mark.parametrize(
    "wrong", [{"replicas": {"worker": 0}}, {"env": {"TOKEN": CIPHER, "A": 1}}, {"nmae": "x"}]
)
def test_an_error_beside_a_secret_does_not_show_it(run: Run, wrong: dict[str, Any]) -> None:
    with pytest.raises(pulumi.RunError) as refused:
        run({**JOB, "env": {"TOKEN": CIPHER}, **wrong})
    assert WORD not in str(refused.value)


def test_a_configuration_is_not_shown_by_its_repr() -> None:
    known = stack(job={**JOB, "env": {"TOKEN": {"secure": WORD}}})
    assert WORD not in repr(known)


@pytest.mark.parametrize(
    "written",
    [
        {"job": CIPHER},
        {"job": {"name": "mnist"}},
        {"job": {"name": "mnist", "env": {"TOKEN": "plain"}}},
        {"job": {"name": "mnist", "env": {"OTHER": CIPHER}}},
        {},
    ],
)
def test_a_file_that_does_not_tell_the_secret_is_refused(written: dict[str, Any]) -> None:
    given = {"job": {"name": "mnist", "env": {"TOKEN": WORD}}}
    with pytest.raises(ConfigError, match=r"trainstack:job = \(secret\)") as refused:
        restored(given, written, {"job"}, FILE)
    assert WORD not in str(refused.value)


def test_a_secret_of_another_program_is_none_of_ours() -> None:
    given = {"job": {"name": "mnist"}}
    assert restored(given, given, {"aws:token"}, FILE) == given


@pytest.mark.parametrize("value", [{"secure": 1}, {"secure": "a", "b": "c"}, {}, [], "secure", None])
def test_only_pulumis_own_form_is_encrypted(value: Any) -> None:
    assert not encrypted.is_encrypted(value)


def test_each_of_several_jobs_has_its_own(run: Run) -> None:
    jobs = [{"name": "one", "env": {"A": CIPHER}}, {"name": "two", "env": {"B": CIPHER}}, {"name": "three"}]
    secrets = {name for name in run(jobs, "jobs").manifests() if name.endswith("-env")}
    assert secrets == {"Secret/one-env", "Secret/two-env"}

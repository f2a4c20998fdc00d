"""Section `sweep`: which options a search has, and which jobs its trials are. wrong_stacks.yaml has what is refused."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import agreed, program, registration
from infra.config import ConfigError, Stack, encrypted, from_raw
from infra.config.job import JobConfig
from infra.config.sweep_space import KEYS, LEFT_OUT, Choice, Range, two_examples
from infra.config.sweep_trials import Trial, job, read
from infra.config.training import TrainingConfig
from infra.job.manifest import manifest, run_of
from infra.job.run_id import inputs
from infra.sweep import search
from tests.matrix.entries import OBJECTS
from tests.unit.infra.samples import job_context

JOB: dict[str, Any] = {
    "name": "mnist",
    "training": {"epochs": 2, "digitsEpochs": 12, "lr": 0.5},
    "env": {"A": "b"},
}
LR = {"training.lr": {"min": "1e-3", "max": 0.3, "log": True}}


def of(options: Any = LR, template: dict[str, Any] = JOB, **others: Any) -> Stack:
    given = {"job": template, "sweep": {"options": options, **others}}
    return from_raw("dev", given, "stacks/Pulumi.dev.yaml")


def under_way(folder: Path, *numbers: int) -> Path:
    """The file in which `make sweep` hands over trials of `of()`."""
    trials = [{"number": number, "values": {"training.lr": number / 10}} for number in numbers]
    file = folder / "trials"
    told = {"stack": "dev", "job": "mnist-sweep-", "identity": search.identity(of()), "trials": trials}
    file.write_text(json.dumps(told))
    return file


def trial(stack: Stack, number: int, **values: float) -> JobConfig:
    assert stack.sweep
    given = {f"training.{key}": value for key, value in values.items()}
    return job(stack.jobs[0], stack.sweep, "/models", stack.file, Trial(number, given))


@pytest.mark.parametrize("key", KEYS)
def test_every_key_of_training_but_those_of_the_data_may_be_searched(key: str) -> None:
    value = OBJECTS[f"job.{key}"].value
    assert isinstance(value, int | float)
    whole = isinstance(value, int)
    low = value if whole else value / 2
    high = value + 1 if whole else value
    found = of({key: {"min": low, "max": high}}).sweep
    assert found
    assert found.space == {key: Range(low, high, log=False, whole=whole)}
    stack = of({key: [low, high]})
    assert stack.sweep
    assert stack.sweep.space == {key: Choice((low, high))}
    alias = key.removeprefix("training.")
    made = trial(stack, 0, **{alias: high})
    (name,) = [name for name, field in TrainingConfig.model_fields.items() if field.alias == alias]
    assert getattr(made.training, name) == high


@pytest.mark.parametrize("key", KEYS)
def test_the_values_that_an_error_suggests_can_be_searched(key: str) -> None:
    assert of({key: yaml.safe_load(two_examples(key))}).sweep


@pytest.mark.parametrize(("high", "fix"), [(0.1, "exchange min and max"), (0.3, "raise max")])
def test_the_fix_of_a_range_without_numbers_helps(high: float, fix: str) -> None:
    with pytest.raises(ConfigError, match=f"fix: {fix}"):
        of({"training.lr": {"min": 0.3, "max": high}})


def test_no_key_of_training_is_forgotten() -> None:
    aliases = {str(field.alias) for field in TrainingConfig.model_fields.values()}
    assert {key.removeprefix("training.") for key in KEYS} == aliases - set(LEFT_OUT)


def test_a_number_written_as_text_is_one_as_everywhere() -> None:
    found = of().sweep
    assert found
    assert found.space == {"training.lr": Range(0.001, 0.3, log=True, whole=False)}


def test_the_order_in_the_file_changes_nothing() -> None:
    one, other = {"training.seed": [1, 2], **LR}, {**LR, "training.seed": [1, 2]}
    first, second = of(one).sweep, of(other).sweep
    assert first
    assert second
    assert list(first.space) == list(second.space)


def test_a_trial_is_the_job_with_other_values_and_a_folder_of_its_own() -> None:
    stack = of()
    made = trial(stack, 7, lr=0.02)
    assert made.name == "mnist-sweep-7"
    assert made.training == stack.jobs[0].training.model_copy(update={"lr": 0.02})
    assert made.env == {"A": "b", "TRAINER_MODEL_DIR": "/models/sweep"}
    others = {"name": "mnist", "training": made.training, "env": {"A": "b"}}
    assert made.model_copy(update=others) == stack.jobs[0].model_copy(update={"training": made.training})


def test_the_job_of_a_trial_stays_until_the_search_takes_it_away() -> None:
    """What the search has not seen end would be made again."""
    job = {**JOB, "runPolicy": {"ttlSecondsAfterFinished": 5, "backoffLimit": 2}}
    stack = of(template=job)
    assert stack.jobs[0].run_policy.ttl_seconds_after_finished == 5
    policy = trial(stack, 7, lr=0.02).run_policy
    assert (policy.ttl_seconds_after_finished, policy.backoff_limit) == (None, 2)


def test_the_same_values_train_the_same() -> None:
    """A trial that was killed goes on with its run; another number is another run of the same."""
    stack = of()
    same = [run_of(manifest(trial(stack, 1, lr=0.02), job_context())) for _ in range(2)]
    assert same[0] == same[1]
    found = [inputs(trial(stack, number, lr=0.02), job_context()) for number in (1, 2)]
    assert found[0] == found[1]


def test_searched_epochs_count_on_the_digits_too() -> None:
    stack = of({"training.epochs": [1, 3]})
    assert trial(stack, 0, epochs=3).training.digits_epochs is None
    assert trial(of(), 0, lr=0.1).training.digits_epochs == 12


def test_the_stack_file_alone_has_its_own_job() -> None:
    stack = of()
    assert [each.name for each in stack.jobs] == ["mnist"]
    assert stack.own_jobs == stack.jobs
    assert program.with_trials(stack) == stack


def test_the_program_adds_the_trials_that_are_under_way(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = under_way(tmp_path, 1, 3)
    monkeypatch.setenv(agreed.TRIALS, str(file))
    stack = program.with_trials(of())
    assert [each.name for each in stack.jobs] == ["mnist", "mnist-sweep-1", "mnist-sweep-3"]
    assert stack.trials == {"mnist-sweep-1", "mnist-sweep-3"}
    assert stack.own_jobs == of().jobs
    assert read(file).trials[1] == Trial(3, {"training.lr": 0.3})
    before, after = (registration.model_path(each, each.jobs[0], "mnist-0") for each in (of(), stack))
    assert before == after, "the model of the stack's own job stays where it was"
    another = from_raw("gpu", {"job": JOB}, "stacks/Pulumi.gpu.yaml")
    assert program.with_trials(another) == another, "another stack of this process has no search"


# What the stack file has become while its search is under way, and what is said of it. A search whose trials could not
# be compared with those before is another one; tests/unit/infra/sweep/test_search.py has every kind.
SWEEP = {"options": LR}
GONE, OTHER = "whose trials have the names mnist-sweep-0", "change `sweep.name`"
EDITS: dict[str, tuple[dict[str, Any], str]] = {
    "no sweep": ({"job": JOB}, GONE),
    "jobs in place of it": ({"jobs": [JOB, {**JOB, "name": "other"}]}, GONE),
    "another name of the search": ({"job": JOB, "sweep": {**SWEEP, "name": "rates"}}, GONE),
    "another name of the job": ({"job": {**JOB, "name": "other"}, "sweep": SWEEP}, GONE),
    "other options": ({"job": JOB, "sweep": {"options": {"training.lr": [0.1, 0.2]}}}, OTHER),
    "another objective": ({"job": JOB, "sweep": {**SWEEP, "objective": "loss"}}, OTHER),
    "more epochs": ({"job": {**JOB, "training": {"epochs": 3}}, "sweep": SWEEP}, OTHER),
    "another image": (
        {"job": JOB, "sweep": SWEEP, "image": {"reference": "registry.example/other@sha256:" + "1" * 64}},
        OTHER,
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_update_of_a_stack_that_asks_for_the_search_no_more_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, edit: str
) -> None:
    sections, said = EDITS[edit]
    stack = from_raw("dev", sections, "stacks/Pulumi.dev.yaml")
    monkeypatch.setenv(agreed.TRIALS, str(under_way(tmp_path, 1)))
    with pytest.raises(ConfigError, match=r"trainstack:sweep = \(") as refused:
        program.with_trials(stack)
    assert said in str(refused.value)
    assert "undo the edit" in str(refused.value)
    assert ("(another search)" in str(refused.value)) is (said == OTHER)
    monkeypatch.setenv(agreed.TRIALS, str(under_way(tmp_path)))
    assert program.with_trials(stack) == stack, "an update without trials is that of the stack"


def test_an_update_may_change_how_many_trials_there_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(agreed.TRIALS, str(under_way(tmp_path, 1)))
    assert program.with_trials(of(trials=30, parallel=4, prune=False)).trials == {"mnist-sweep-1"}


def test_the_program_reads_the_search_that_the_stack_file_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Pulumi hands it over as JSON, and an encrypted value in plain text."""
    job = {**JOB, "args": ["--x"], "env": {"A": "b", "TOKEN": {"secure": "v1:cipher"}}}
    written = {"job": job, "sweep": {"options": {**LR, "training.batchSize": [32, 64]}}}
    given = copy.deepcopy(written)
    given["job"]["env"]["TOKEN"] = "plain"
    handed = encrypted.restored(json.loads(json.dumps(given)), written, {"job"}, "stacks/Pulumi.dev.yaml")
    found = [search.identity(from_raw("dev", each, "stacks/Pulumi.dev.yaml")) for each in (written, handed)]
    assert found[0] == found[1]

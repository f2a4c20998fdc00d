"""A table of jobs: which jobs a matrix makes, what they are called, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.clusters.selection import ensure_offered
from infra.config import ConfigError, Stack, from_file, from_raw
from infra.config.job import JobConfig
from infra.config.load import sections
from infra.config.matrix import label
from infra.config.matrix_keys import segments
from infra.config.names import JOB_NAME, JOB_NAME_LENGTH
from infra.config.reference import PAGE
from infra.job.manifest import manifest, run_of
from infra.stack_edits import set_keys, written
from infra.stack_plan import ends_before, of_run
from tests.matrix.entries import OBJECTS, ON_KIND
from tests.matrix.project import set_key
from tests.unit.infra.config.wrong_stacks import cases
from tests.unit.infra.samples import job_context

JOB = {"name": "mnist", "training": {"epochs": 2}}
SEEDS = {"training.seed": [1, 2, 3]}
PLAIN = {
    key.removeprefix("job."): entry.value
    for key, entry in {**OBJECTS, **ON_KIND}.items()
    if key.startswith("job.") and isinstance(entry.value, bool | int | float | str)
}


def of(options: Any, job: dict[str, Any] = JOB, **others: Any) -> Stack:
    given = {"job": job, "matrix": {"options": options, **others}}
    return from_raw("dev", given, "stacks/Pulumi.dev.yaml")


def names(stack: Stack) -> list[str]:
    return [job.name for job in stack.jobs]


def test_there_is_a_job_for_each_combination_of_the_values() -> None:
    found = of({"training.seed": [1, 2], "training.lr": [0.01, 0.1]})
    values = {job.name: (job.training.lr, job.training.seed, job.training.epochs) for job in found.jobs}
    assert values == {
        "mnist-lr-0-01-seed-1": (0.01, 1, 2),
        "mnist-lr-0-01-seed-2": (0.01, 2, 2),
        "mnist-lr-0-1-seed-1": (0.1, 1, 2),
        "mnist-lr-0-1-seed-2": (0.1, 2, 2),
    }


def test_the_order_in_the_file_changes_neither_names_nor_jobs() -> None:
    """Pulumi hands mappings over sorted; a review reads the file."""
    one = of({"training.seed": [1, 2], "training.lr": [0.01], "env.A": ["x"]})
    other = of({"env.A": ["x"], "training.lr": [0.01], "training.seed": [1, 2]})
    assert one.jobs == other.jobs


def test_another_value_leaves_the_other_jobs_and_their_runs_alone() -> None:
    before, after = of(SEEDS), of({"training.seed": [0, 1, 2, 3]})
    runs = [{job.name: run_of(manifest(job, job_context())) for job in each.jobs} for each in (before, after)]
    assert runs[0].items() <= runs[1].items()


@pytest.mark.parametrize("key", PLAIN)
def test_every_key_with_a_plain_value_may_be_an_option(key: str) -> None:
    """What a key needs beside it stands in the template; what no job may have is refused at the key."""
    entry = {**OBJECTS, **ON_KIND}[f"job.{key}"]
    if key == "name":
        with pytest.raises(ConfigError, match="jobs are named after"):
            of({key: [entry.value]})
        return
    template: dict[str, Any] = {"name": "mnist", "elasticPolicy": {"minReplicas": 1, "maxReplicas": 2}}
    for path, given in entry.given.items():
        if path.startswith("job."):
            set_key(template, path.split(".")[1:], given)
    (job,) = of({key: [entry.value]}, template).jobs
    value: Any = job
    for part in segments(key):
        aliases = {field.alias: name for name, field in type(value).model_fields.items()}
        value = getattr(value, aliases[part])
    assert value == entry.value


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (1, "1"),
        (1.0, "1"),
        ("1.0", "1"),
        (0.01, "0-01"),
        (1e-5, "1e-05"),
        ("1e-5", "1e-05"),
        (-1, "minus1"),
        (-0.5, "minus0-5"),
        (True, "true"),
        ("500m", "500m"),
        ("Fashion_MNIST", "fashion-mnist"),
        (12345678901234567890, "12345678901234567890"),
        ("--", ""),
    ],
)
def test_a_value_is_named_the_same_however_it_is_written(value: Any, named: str) -> None:
    assert label(value) == named


def test_names_are_names_of_jobs() -> None:
    options = {
        "env.MY_VAR": ["A b", "é1", "x" * 4],
        "labels.example.com/team": ["a.b"],
        "nprocPerNode": [1, 2],
    }
    found = names(of(options, {"name": "m"}))
    assert len(found) == 6
    assert "m-my-var-a-b-example-com-team-a-b-nprocpernode-1" in found
    assert all(JOB_NAME.fullmatch(name) and len(name) <= JOB_NAME_LENGTH for name in found)


def test_what_an_entry_of_exclude_names_is_left_out() -> None:
    options = {"training.seed": [1, 2], "training.lr": [0.1, "1e-5"]}
    found = of(options, exclude=[{"training.lr": 1e-5, "training.seed": 2}, {"training.lr": 0.1}])
    assert names(found) == ["mnist-lr-1e-05-seed-1"]


def test_an_encrypted_variable_of_the_template_reaches_every_job() -> None:
    secret = {"TOKEN": {"secure": "v1:one:cipher"}}
    found = of({"env.TEAM": ["a", "b"]}, {**JOB, "env": secret})
    assert [(each.env["TEAM"], list(each.encrypted)) for each in found.jobs] == [
        ("a", ["TOKEN"]),
        ("b", ["TOKEN"]),
    ]


REFUSED = cases("wrong_matrices.yaml")


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_said_with_the_way_out(case: str) -> None:
    with pytest.raises(ConfigError) as refused:
        from_raw("dev", REFUSED[case].sections, "stacks/Pulumi.dev.yaml")
    REFUSED[case].check(str(refused.value))


def test_other_errors_name_the_template() -> None:
    found = of({"resources.gpu": [1, 2]})
    with pytest.raises(ConfigError, match=r"trainstack:job\.resources\.gpu = 1"):
        ensure_offered(found, {})
    with pytest.raises(ConfigError, match=r"trainstack:job\.name = 'mnist-a-x{42}'"):
        from_raw(
            "dev",
            {"job": JOB, "operator": {"api": "v2"}, "matrix": {"options": {"env.A": ["x" * 42]}}},
            "stacks/Pulumi.dev.yaml",
        )


@pytest.mark.parametrize(
    ("most", "before"), [(1, [None, 0, 1, 2]), (2, [None, None, 0, 1]), (None, [None] * 4)]
)
def test_each_waits_for_the_run_so_many_places_before_it(most: int | None, before: list[int | None]) -> None:
    found = of({"training.seed": [1, 2, 3, 4]}, maxParallel=most)
    runs = [of_run(job.name) for job in found.jobs]
    wanted = [() if each is None else (runs[each],) for each in before]
    assert [ends_before(found, place) for place in range(len(runs))] == wanted


def test_the_jobs_of_a_list_wait_for_none() -> None:
    listed = from_raw("dev", {"jobs": [JOB, {**JOB, "name": "second"}]}, "stacks/Pulumi.dev.yaml")
    assert ends_before(listed, 1) == ()


def test_the_example_of_the_page_is_five_hundred_jobs_in_ten_lines() -> None:
    (example,) = [
        each for each in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL) if "matrix" in each
    ]
    assert len(example.splitlines()) <= 10
    stack = from_raw("dev", sections(yaml.safe_load(example)["config"]), "stacks/Pulumi.dev.yaml")
    assert len(set(names(stack))) == 500
    assert "mnist-batchsize-64-lr-0-01-seed-1" in names(stack)


FILE = """config:
  trainstack:job:
    name: mnist
  trainstack:matrix: {options: {training.seed: [1, 2]}}
"""


def test_keys_of_one_job_alone_cannot_be_set_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text(FILE)
    with pytest.raises(ConfigError, match="`matrix` makes mnist-seed-1 from `job`"):
        set_keys(file, {"mnist-seed-1": {"rerun": "1"}})
    with pytest.raises(ConfigError, match="`matrix` makes mnist-seed-2 from `job`"):
        written(file, "mnist-seed-2", "training")
    assert file.read_text() == FILE
    set_keys(file, {"mnist": {"rerun": "1"}})
    assert [job.rerun for job in from_file(file).jobs] == [1, 1]


def test_the_template_is_known_to_whoever_writes_the_file() -> None:
    found = of(SEEDS)
    assert isinstance(found.template, JobConfig)
    assert (found.template.name, from_raw("dev", {"job": JOB}, "").template) == ("mnist", None)

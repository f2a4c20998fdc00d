"""A stack file that extends a base: what is merged, what is refused, and where errors say that a value stands."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import dataset, operators, paths, stack_edits
from infra.config import ConfigError, from_file
from infra.config.encrypted import is_encrypted, leaves
from infra.config.errors import Extending, key_of, model_in, takes_null
from infra.config.job import JobConfig
from infra.config.load import Sections, own, read, source
from infra.config.training import Dataset
from infra.review import folder
from tests.unit.infra.config.wrong_stacks import CASES, refusal
from tests.unit.infra.samples import JOB

VALUES: dict[str, tuple[Any, Any, Any]] = {
    "only the base has it": ({"a": 1}, {}, {"a": 1}),
    "only the stack has it": ({}, {"a": 1}, {"a": 1}),
    "mappings are merged": ({"a": 1, "b": 1}, {"b": 2, "c": 2}, {"a": 1, "b": 2, "c": 2}),
    "at any depth": ({"a": {"b": {"c": 1, "d": 1}}}, {"a": {"b": {"d": 2}}}, {"a": {"b": {"c": 1, "d": 2}}}),
    "lists are replaced": ({"a": [1, 2], "b": [3]}, {"a": [4]}, {"a": [4], "b": [3]}),
    "an empty list, too": ({"a": [1]}, {"a": []}, {"a": []}),
    "a scalar over a mapping": ({"a": {"b": 1}}, {"a": "text"}, {"a": "text"}),
    "a mapping over a scalar": ({"a": 1}, {"a": {"b": 1}}, {"a": {"b": 1}}),
    "null removes": ({"a": {"b": 1, "c": 1}, "d": 1}, {"a": {"b": None}, "d": None}, {"a": {"c": 1}}),
    "null with nothing to remove stays": ({"a": 1}, {"b": None}, {"a": 1, "b": None}),
    "null of the base stays": ({"a": None}, {}, {"a": None}),
    "false and zero are values": ({"a": True, "b": 1}, {"a": False, "b": 0}, {"a": False, "b": 0}),
    "an encrypted value is one value": (
        {"a": {"secure": 1}},
        {"a": {"secure": "v1:x"}},
        {"a": {"secure": "v1:x"}},
    ),
}


def write(folder: Path, base: dict[str, Any], sections: dict[str, Any]) -> Path:
    """Both files; the stack's path."""
    for name, given in (("base.yaml", base), ("Pulumi.dev.yaml", {"extends": "base", **sections})):
        config = {f"trainstack:{key}": value for key, value in given.items()}
        (folder / name).write_text(yaml.safe_dump({"config": config}, sort_keys=False))
    return folder / "Pulumi.dev.yaml"


@pytest.mark.parametrize("section", Sections.model_fields)
@pytest.mark.parametrize("case", VALUES)
def test_the_stack_is_over_its_base(tmp_path: Path, section: str, case: str) -> None:
    base, above, effective = VALUES[case]
    file = write(tmp_path, {section: base}, {section: above})
    assert read(file) == {section: effective}
    assert own(file) == {"extends": "base", section: above}


@pytest.mark.parametrize("section", Sections.model_fields)
@pytest.mark.parametrize("written", ["null", "", "~", "'null'", "''"])
def test_null_removes_a_whole_section(tmp_path: Path, section: str, written: str) -> None:
    file = write(tmp_path, {section: 1, "other": 2}, {})
    file.write_text(f"{file.read_text()}  trainstack:{section}: {written}\n")
    assert read(file) == {"other": 2}


def nullable() -> dict[tuple[str, ...], Any]:
    """The keys of which null says something else than leaving them out, by their path."""
    found = {}

    def walk(model: Any, path: tuple[str, ...]) -> None:
        for name, field in model.model_fields.items():
            place = (*path, field.alias or name)
            if takes_null(Sections, place):
                found[place] = field.default
            if (inner := model_in(field.annotation)) and len(place) < 5:
                walk(inner, place)

    walk(Sections, ())
    return found


def test_a_null_that_is_a_value_is_one_over_a_base_too(tmp_path: Path) -> None:
    """`model: null` leaves no model: removing the key would leave the usual one."""
    found = [path for path in nullable() if path[0] == "job"]
    assert ("job", "model") in found
    for path in found:
        above: Any = None
        base: Any = "x"
        for step in reversed(path):
            above, base = {step: above}, {step: base}
        merged: Any = read(write(tmp_path, base, above))
        for step in path:
            merged = merged[step]
        assert merged is None, path


def test_text_in_json_is_merged_as_what_it_holds(tmp_path: Path) -> None:
    file = write(tmp_path, {"job": '{"name": "mnist", "rerun": 1}'}, {"job": '{"rerun": 2}'})
    assert read(file) == {"job": {"name": "mnist", "rerun": 2}}
    places = source(file, "S")
    assert isinstance(places, Extending)
    assert places.places["trainstack:job.rerun"] == "S:3"


def test_each_value_has_the_place_where_it_stands(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(
        "config:\n  trainstack:job:\n    name: mnist\n    args: [a,\n      b, c]\n    env: &e\n      A: x\n"
        "    labels:\n      <<: *e\n      B: y\n"
    )
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text(
        "config:\n  trainstack:extends: base\n\n  trainstack:job:\n    args:\n      - a\n    env: {C: z}\n"
    )
    places = source(file, "stacks/Pulumi.dev.yaml")
    assert isinstance(places, Extending)
    told = {key_of(path): places.places[key_of(path)] for path, _ in leaves(read(file))}
    assert told == {
        "trainstack:job.name": "stacks/base.yaml:3",
        "trainstack:job.args[0]": "stacks/Pulumi.dev.yaml:6",
        "trainstack:job.env.A": "stacks/base.yaml:7",
        "trainstack:job.env.C": "stacks/Pulumi.dev.yaml:7",
        "trainstack:job.labels.A": "stacks/base.yaml:7",
        "trainstack:job.labels.B": "stacks/base.yaml:10",
    }


REFUSED = {
    "a base that extends": ("config: {trainstack:extends: other}", "base.yaml: trainstack:extends = 'other'"),
    "an encrypted value": (
        "config:\n  trainstack:job:\n    env: {TOKEN: {secure: v1:a:b}}\n",
        "base.yaml:3: trainstack:job.env.TOKEN = (secret)",
    ),
    "an encrypted value in a list": (
        "config:\n  trainstack:jobs:\n    - name: a\n      env: {TOKEN: {secure: x}}\n",
        "base.yaml:4: trainstack:jobs[0].env.TOKEN = (secret)",
    ),
    "a salt": ("encryptionsalt: v1:a\nconfig: {}\n", "base.yaml: encryptionsalt"),
    "an environment": ("environment: [x]\nconfig: {}\n", "base.yaml: environment"),
    "another program's key": ("config: {kubernetes:context: x}\n", "base.yaml: config.kubernetes:context"),
    "a key without its project": ("config: {job: {name: a}}\n", "base.yaml: config.job"),
    "a duplicate": ("config:\n  trainstack:job: {}\n  trainstack:job: {}\n", "base.yaml: not valid YAML"),
    "no mapping": ("7\n", "base.yaml: not a stack file"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_base_with_what_it_cannot_have_is_refused_with_the_fix(tmp_path: Path, case: str) -> None:
    text, said = REFUSED[case]
    file = write(tmp_path, {}, {"job": JOB})
    (tmp_path / "base.yaml").write_text(text)
    with pytest.raises(ConfigError, match=re.escape(said)) as refused:
        from_file(file)
    assert "fix: " in str(refused.value) or "allowed: " in str(refused.value)


@pytest.mark.parametrize(
    "name", ["base.yaml", "../base", "a/b", "", ".", "Pulumi.other", "Pulumi", 7, None, ["base"], True, "a b"]
)
def test_only_the_name_of_a_file_beside_it_is_extended(tmp_path: Path, name: object) -> None:
    file = write(tmp_path, {}, {"job": JOB, "extends": name})
    for each in ("Pulumi.other.yaml", "Pulumi.yaml"):
        (tmp_path / each).write_text("config: {}\n")
    with pytest.raises(ConfigError, match="trainstack:extends = ") as refused:
        from_file(file)
    assert "the name of a file in the same folder" in str(refused.value)
    assert "fix: write for example `trainstack:extends: base`" in str(refused.value)


def test_a_base_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A link, too: no commit has what it leads to."""
    file = write(tmp_path, {}, {"job": JOB, "extends": "missing"})
    (tmp_path / "linked.yaml").symlink_to("base.yaml")
    for name in ("missing", "linked"):
        file.write_text(file.read_text().replace("missing", name))
        with pytest.raises(ConfigError, match=rf"fix: add the file .*{name}\.yaml"):
            from_file(file)


# An encrypted value is refused in a base whatever its place.
IN_A_BASE = [
    name for name, case in CASES.items() if not any(is_encrypted(each) for _, each in leaves(case.sections))
]


@pytest.mark.parametrize("name", IN_A_BASE)
def test_an_error_names_the_file_and_line_of_the_value(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each wrong stack file, with all its values in a base: the key stands in the line that is named."""
    case = CASES[name]
    said = refusal({"extends": "base"}, tmp_path, monkeypatch, base=case.sections)
    case.check(re.sub(r"^stacks/base\.yaml:\d+: ", "stacks/Pulumi.dev.yaml: ", said))
    key = said.partition(": ")[2].partition(" = ")[0]
    is_written = key in {key_of(path) for path in written(case.sections)}
    place = re.match(r"stacks/base\.yaml:(\d+): ", said)
    assert bool(place) is is_written, said
    if place:
        line = (tmp_path / "stacks" / "base.yaml").read_text().splitlines()[int(place[1]) - 1]
        last = re.split(r"\.|(?=\[)", key)[-1]
        assert line.lstrip().startswith("- ") if last.startswith("[") else f"{last}:" in line, said


def written(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else [])
    )
    return [path, *(found for step, each in entries for found in written(each, (*path, step)))]


def moved_sections() -> dict[str, Any]:
    """The sections of a stack; the test moves each of its values alone."""
    training, env = {"epochs": 2, "dataset": "digits"}, {"A": "x", "B": "y"}
    job = {"name": "mnist", "training": training, "env": env, "args": ["a"]}
    return {"cluster": {"workers": 1}, "job": job, "storage": {"capacity": "10Gi"}, "protected": True}


MOVED = [path for path, _ in leaves(moved_sections())]


@pytest.mark.parametrize("path", MOVED, ids=key_of)
def test_a_value_that_moves_into_the_base_changes_neither_rendering_nor_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: tuple[str | int, ...]
) -> None:
    monkeypatch.setattr(operators, "manifests", lambda stack, planned: [])
    whole = tmp_path / "whole"
    whole.mkdir()
    file = write(whole, {}, moved_sections())
    sections: Any = moved_sections()
    base: Any = {}
    here, there = sections, base
    *outer, last = [step for step in path if isinstance(step, str)]
    for step in outer:
        here, there = here[step], there.setdefault(step, {})
    there[last] = here.pop(last)
    other = write(tmp_path, base, sections)
    assert replace(from_file(other), file="") == replace(from_file(file), file="")
    assert folder.files(from_file(other)) == folder.files(from_file(file))


def test_keys_of_a_job_are_written_over_those_of_the_base(tmp_path: Path) -> None:
    base = {"job": {"name": "mnist", "training": {"epochs": 1, "lr": 0.1}}}
    file = write(tmp_path, base, {"job": {"training": {"epochs": 2}}})
    assert stack_edits.written(file, "mnist", "training") == {"epochs": "2", "lr": "0.1"}


RUN = "mnist-0a1b2c3d"
IMAGE = {"cluster": {"kind": "existing"}, "image": {"reference": "localhost/t:1", "unpinned": True}}
THE_JOB = {"name": "mnist", "training": {"epochs": 2, "dataset": "digits"}}
OWN_JOBS: dict[str, tuple[dict[str, Any], str]] = {
    "nothing of the job": ({}, "  trainstack:extends: base"),
    "a mapping in it": ({"job": {"replicas": {"worker": 2}}}, "  trainstack:job:"),
    "a value of it": ({"job": {"rerun": 3, "runId": None}}, "  trainstack:job:"),
    "the job": ({"job": {"name": "mnist", "training": {"lr": 0.5}}}, "    name: mnist"),
}
"""What a stack file has of its job, beside its base, and a line of it that stays."""


def promote(file: Path) -> None:
    stack_edits.take_over(file, stack_edits.promotions(file.with_name("Pulumi.other.yaml"), file))


COMMANDS: dict[str, tuple[Callable[[Path], Any], Callable[[JobConfig], bool]]] = {
    "rerun": (
        lambda file: stack_edits.count_up(file, stack_edits.reruns(from_file(file), "mnist")),
        lambda job: job.rerun in (1, 4),
    ),
    "use": (lambda file: stack_edits.choose_run(file, RUN), lambda job: job.run_id == RUN),
    "promote": (promote, lambda job: job.training.epochs == 7),
}


@pytest.fixture
def stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with stack `other`, whose options are promoted: they stand in another base."""
    monkeypatch.setattr(paths, "models", lambda stack: tmp_path / "models" / stack)
    monkeypatch.setattr(dataset, "of_jobs", lambda stack: {job.name: Dataset.DIGITS for job in stack.jobs})
    (tmp_path / "theirs.yaml").write_text("config:\n  trainstack:job:\n    training: {epochs: 7}\n")
    file = write(tmp_path, {}, {**IMAGE, "job": {"name": "mnist"}, "extends": "theirs"})
    file.rename(tmp_path / "Pulumi.other.yaml")
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("own_job", OWN_JOBS)
def test_commands_write_the_stack_file_and_not_its_base(stacks: Path, command: str, own_job: str) -> None:
    (change, is_there), (sections, stays) = COMMANDS[command], OWN_JOBS[own_job]
    file = write(stacks, {**IMAGE, "job": THE_JOB}, sections)
    before, base = file.read_text(), (stacks / "base.yaml").read_bytes()
    change(file)
    (job,) = from_file(file).jobs
    assert is_there(job), file.read_text()
    assert (job.name, job.training.dataset) == ("mnist", Dataset.DIGITS)
    assert stays in file.read_text().splitlines()
    assert (stacks / "base.yaml").read_bytes() == base
    gone = set(before.splitlines()) - set(file.read_text().splitlines())
    assert {line.split(":")[0].strip() for line in gone} <= {"rerun", "runId"}, "only what it sets"


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_keep_each_lines_end(stacks: Path, command: str) -> None:
    """As Windows' editors write a file: all lines but those that the command adds stay as they are."""
    change, is_there = COMMANDS[command]
    file = write(stacks, {}, {**IMAGE, "job": {**THE_JOB, "env": {"A": "x"}}})
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    before = file.read_bytes().splitlines(keepends=True)
    change(file)
    (job,) = from_file(file).jobs
    assert is_there(job)
    after = file.read_bytes().splitlines(keepends=True)
    assert [
        line for line in before if line not in after and b"rerun" not in line and b"epochs" not in line
    ] == []
    assert [line for line in after if not line.endswith(b"\r\n")] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_a_list_of_jobs_in_the_base_is_refused_with_the_lines_to_write(stacks: Path, command: str) -> None:
    change, is_there = COMMANDS[command]
    jobs = [{"name": "first"}, THE_JOB]
    file = write(stacks, {**IMAGE, "jobs": jobs}, {})
    before = file.read_bytes(), (stacks / "base.yaml").read_bytes()
    with pytest.raises(ConfigError) as refused:
        change(file)
    said = str(refused.value)
    key = {"rerun": "rerun: 1", "use": "runId: mnist-0a1b2c3d", "promote": "epochs: 7"}[command]
    where = "config.trainstack:jobs.1" + (".training" if command == "promote" else "")
    assert "its jobs are in stacks/base.yaml" in said
    assert f"write in stacks/base.yaml below {where}: {key}" in said
    assert (file.read_bytes(), (stacks / "base.yaml").read_bytes()) == before
    file = write(stacks, {**IMAGE, "jobs": []}, {"jobs": jobs})
    change(file)
    assert is_there(from_file(file).jobs[1])


PAGE = paths.ROOT / "docs" / "environments.md"


def test_the_pages_example_is_merged_as_the_page_says(tmp_path: Path) -> None:
    for name, text in re.findall(r"```yaml\n# stacks/(\S+)\n(.*?)```", PAGE.read_text(), re.DOTALL):
        (tmp_path / name).write_text(text)
    dev, prod = (from_file(tmp_path / f"Pulumi.{name}.yaml") for name in ("dev", "prod"))
    assert (dev.jobs[0].training.epochs, dev.jobs[0].training.lr) == (1, 0.01)
    assert (prod.jobs[0].pod_spec, list(prod.jobs[0].env), prod.jobs[0].training.epochs) == (
        {"tolerations": []},
        ["TEAM"],
        10,
    )
    assert len(dev.jobs[0].pod_spec["tolerations"]) == 1
    assert read(tmp_path / "Pulumi.prod.yaml")["protected"] is True
    assert {".".join(path) for path in nullable() if path[0] == "job"} == {
        "job.model",
        "job.replicas.master",
        "job.replicas.worker",
    }, "those that the page names"
    assert len(PAGE.read_text().splitlines()) <= 60

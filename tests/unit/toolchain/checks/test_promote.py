"""`make promote`: only what has been trained well enough, as one commit, or nothing at all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra import agreed, paths
from infra.config import from_file
from infra.config.training import TrainingConfig
from infra.review import __main__ as rendering
from infra.stack_edits import NAMED, OF_THE_PLACE, PROMOTED, Promotion, promotions
from tests.unit.toolchain.conftest import ROOT, commit_all, git
from tests.unit.toolchain.runs.conftest import Models, epoch
from toolchain import __main__, stack_files
from toolchain.checks import protected, review, stack_changes
from toolchain.operating import state
from toolchain.runs import records
from toolchain.steps import SetupError
from toolchain.tools import venv

DEV = """\
config:
  trainstack:cluster: {kind: existing}
  trainstack:image: {reference: localhost/trainer:1, unpinned: true}
  trainstack:job:
    name: small
    training:
      dataset: auto
      epochs: 2
      lr: 1e-3
"""
GPU = """\
# The big one.
config:
  trainstack:cluster:
    kind: existing
  trainstack:image: {reference: localhost/trainer:2, unpinned: true}
  trainstack:job:
    name: big
    training:
      dataset: mnist
      epochs: 1   # for now
      seed: 7
"""
NAMES = {
    str(field.alias): name for name, field in TrainingConfig.model_fields.items() if field.alias in PROMOTED
}
TAKEN = GPU.replace("epochs: 1 ", "epochs: 2 ").replace("seed: 7\n", "seed: 7\n      lr: 1e-3\n")


class Clone:
    """A Git repository with the program and two stacks, and runs beside it."""

    def __init__(self, root: Path, models: Models) -> None:
        self.root, self.models = root, models
        (root / "stacks").mkdir()
        shutil.copy(ROOT / "Pulumi.yaml", root)
        self.write("dev", DEV)
        self.write("gpu", GPU)
        git(root, "init", "--quiet")
        for key in ("user.name", "user.email"):
            git(root, "config", key, "test@localhost")

    def write(self, stack: str, text: str) -> None:
        (self.root / f"stacks/Pulumi.{stack}.yaml").write_text(text)

    def commit(self) -> None:
        review.render("gpu")
        commit_all(self.root, "as it was")

    @property
    def run(self) -> str:
        """The run that stack dev asks for."""
        (found,) = promotions(*(self.root / f"stacks/Pulumi.{name}.yaml" for name in ("dev", "gpu")))
        return found.run

    def trained(self, accuracy: float, **config: Any) -> None:
        self.models.run(self.run, epoch(2, accuracy), weights="weights", **config)

    def state(self) -> tuple[str, str, str]:
        """What no refusal may change."""
        return (
            git(self.root, "rev-parse", "HEAD"),
            git(self.root, "status", "--porcelain"),
            (self.root / "stacks/Pulumi.gpu.yaml").read_text(),
        )


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clone:
    root, models = tmp_path / "clone", Models(tmp_path / "models")
    root.mkdir()
    for module in (stack_changes, protected, review):
        monkeypatch.setattr(module, "ROOT", root)
    monkeypatch.setattr(stack_files, "STACKS", root / "stacks")
    for module in (stack_changes, records):
        monkeypatch.setattr(module, "MODELS", models.folder)
    monkeypatch.setattr(venv, "ensure", lambda: None)
    monkeypatch.setattr(state, "deployment", lambda stack: {})
    monkeypatch.setattr(paths, "ROOT", root)
    into = ("--into", str(root / "stacks"))
    monkeypatch.setattr(review, "render", lambda *words: rendering.main([*words, *into]))
    return Clone(root, models)


def refusal(clone: Clone, *arguments: str) -> str:
    """Why nothing was promoted; nothing has changed."""
    before = clone.state()
    with pytest.raises(SetupError) as refused:
        stack_changes.promote(*(arguments or ("dev", "gpu", "0.9")))
    assert clone.state() == before
    return str(refused.value)


def test_a_promotion_is_one_commit_of_the_stack_file_and_its_renderings(
    clone: Clone, capsys: pytest.CaptureFixture[str]
) -> None:
    clone.commit()
    clone.trained(0.95)
    asked = ["promote", "--source", "dev", "--target", "gpu", "--min-accuracy", "0.95"]
    assert __main__.dispatch(__main__.parser().parse_args(asked)) == 0
    head, status, text = clone.state()
    assert (status, text) == ("", TAKEN)
    changed = git(clone.root, "show", "--name-only", "--format=%s%n%b", "HEAD").splitlines()
    assert changed[0] == "Promote dev to gpu"
    assert f"{clone.run} reached an accuracy of 0.9500." in changed
    assert "big: epochs 1 -> 2" in changed
    assert "big: lr not set -> 1e-3" in changed
    assert [each for each in changed if each.startswith("stacks/")] == [
        "stacks/Pulumi.gpu.yaml",
        "stacks/rendered/gpu/jobs/jobs.yaml",
        "stacks/rendered/gpu/jobs/kustomization.yaml",
    ]
    assert "keys that only gpu sets, unchanged: seed" in capsys.readouterr().out
    stack_changes.promote("dev", "gpu", "0.95")
    assert clone.state()[0] == head, "a second promotion finds nothing to do"


OTHERWISE = {
    "command": ["python3", "-m", "trainer"],
    "args": ["--network", "convnet"],
    "env": {"OMP_NUM_THREADS": "1"},
    "envFrom": [{"secret": "login"}],
    "replicas": {"worker": 2},
    "nprocPerNode": 2,
    "data": [{"path": "/data", "claim": "images"}],
    "pod": {"spec": {"containers": [{"name": "pytorch", "workingDir": "/srv"}]}},
}


@pytest.mark.parametrize("key", NAMED)
def test_what_else_the_accuracy_was_reached_with_is_named(
    clone: Clone, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    """It stays, and who reviews the commit is told."""
    clone.write(
        "gpu", GPU.replace("    name: big\n", f"    name: big\n    {key}: {json.dumps(OTHERWISE[key])}\n")
    )
    clone.commit()
    clone.trained(0.95)
    stack_changes.promote("dev", "gpu", "0.95")
    said = f"big: keys that differ from dev and stay unchanged in gpu: {key}"
    assert said in capsys.readouterr().out.splitlines()
    assert said in git(clone.root, "show", "--no-patch", "--format=%b", "HEAD").splitlines()
    assert json.dumps(OTHERWISE[key]) in clone.state()[2]


def test_a_stack_file_that_is_wrong_is_refused(clone: Clone) -> None:
    clone.write("broken", "config: {trainstack:job: {nome: small}}\n")
    clone.commit()
    assert "trainstack:job.nome" in refusal(clone, "dev", "broken", "0.9")


def change(clone: Clone) -> None:
    clone.write("dev", DEV.replace("epochs: 2", "epochs: 3"))


def forget_rendering(clone: Clone) -> None:
    shutil.rmtree(clone.root / "stacks" / "rendered")
    git(clone.root, "commit", "--all", "--quiet", "--message", "without renderings")


def refuse_commits(clone: Clone) -> None:
    hook = clone.root / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho not today >&2\nexit 1\n")
    hook.chmod(0o755)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (change, "these files have other changes: stacks/Pulumi.dev.yaml"),
        (forget_rendering, "the committed rendering of stack gpu is stale"),
        (refuse_commits, "not today"),
    ],
)
def test_a_clone_that_is_not_ready_is_left_as_it_is(
    clone: Clone, damage: Callable[[Clone], None], said: str
) -> None:
    clone.commit()
    clone.trained(0.95)
    damage(clone)
    assert said in refusal(clone)


def test_what_the_other_stack_does_not_take_is_taken_back(clone: Clone) -> None:
    clone.write("gpu", GPU.replace("    training:", "    args: [--lr, '1']\n    training:"))
    clone.commit()
    clone.trained(0.95)
    assert "--lr in only one place" in refusal(clone)


VALUES: dict[str, Any] = {
    "epochs": 3,
    "batchSize": 32,
    "testBatchSize": 500,
    "lr": 1e-05,
    "momentum": 0.25,
    "gamma": 0.5,
    "seed": 11,
    "logInterval": 5,
}
ALL = "\n".join(f"      {key}: {value!r}" for key, value in VALUES.items())
HEAD = DEV.partition("  trainstack:job:")[0]
JOB = "  trainstack:job:\n    name: small\n"
ANCHORED = "\n".join(f"      {key}: &a{key} {value!r}" for key, value in VALUES.items())
ALIASED = "\n".join(f"      {key}: *a{key}" for key in VALUES)
# The same options, in each way in which a stack file may give them.
LAYOUTS = {
    "a block": f"{HEAD}{JOB}    training:\n{ALL}\n",
    "braces": f"{HEAD}{JOB}    training: {json.dumps(VALUES)}\n",
    "a section as text": f"{HEAD}  trainstack:job: '{json.dumps({'name': 'small', 'training': VALUES})}'\n",
    "jobs as text": f"{HEAD}  trainstack:jobs: '{json.dumps([{'name': 'small', 'training': VALUES}])}'\n",
    "merged options": f"usual: &t\n{ALL}\n{HEAD}{JOB}    training:\n      <<: *t\n",
    "a merged job": f"usual: &t\n    training:\n{ALL}\n{HEAD}{JOB}    <<: *t\n",
    "an alias": f"usual: &t\n{ALL}\n{HEAD}{JOB}    training: *t\n",
    "aliases": f"usual:\n{ANCHORED}\n{HEAD}{JOB}    training:\n{ALIASED}\n",
    "anchors": f"{HEAD}{JOB}    training:\n{ANCHORED}\n",
    "tags": f"{HEAD}{JOB}    training:\n{ALL.replace(' 3', ' !!int 3')}\n",
    "numbers as text": f"{HEAD}{JOB}    training:\n{ALL.replace('0.25', '|' + chr(10) + '        0.25')}\n",
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_options_are_taken_over_however_they_are_written(clone: Clone, layout: str) -> None:
    assert set(VALUES) == set(PROMOTED)
    clone.write("dev", LAYOUTS[layout])
    clone.commit()
    clone.trained(0.95)
    stack_changes.promote("dev", "gpu", "0.9")
    files = [clone.root / f"stacks/Pulumi.{name}.yaml" for name in ("dev", "gpu")]
    (given,), (taken,) = (from_file(file).jobs for file in files)
    assert {key: getattr(taken.training, name) for key, name in NAMES.items()} == VALUES
    assert {key: getattr(given.training, name) for key, name in NAMES.items()} == VALUES
    assert "&" not in files[1].read_text()
    head = clone.state()[0]
    stack_changes.promote("dev", "gpu", "0.9")
    assert clone.state()[0] == head, "a second promotion finds nothing to do"


# Layouts in which no option of a job can be set without touching more.
TAKE_NO_OPTION = (
    "a section as text",
    "jobs as text",
    "a merged job",
    "an alias",
    "aliases",
)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_target_takes_them_over_or_is_refused_however_it_is_written(clone: Clone, layout: str) -> None:
    clone.write("dev", DEV.replace("epochs: 2", "epochs: 9").replace("lr: 1e-3", "seed: 12"))
    clone.write("gpu", LAYOUTS[layout])
    clone.commit()
    clone.trained(0.95)
    if layout in TAKE_NO_OPTION:
        assert "epochs: 9, seed: 12" in refusal(clone)
        return
    stack_changes.promote("dev", "gpu", "0.9")
    (taken,) = from_file(clone.root / "stacks/Pulumi.gpu.yaml").jobs
    expected = {**VALUES, "epochs": 9, "seed": 12}
    assert {key: getattr(taken.training, name) for key, name in NAMES.items()} == expected


@pytest.mark.parametrize(
    ("given", "there", "changes"),
    [
        ("lr: 1e-3", "lr: 0.001", {}),
        ("lr: 1", "lr: 1.0", {}),
        ("seed: null", "epochs: 2", {}),
        ("seed: null", "seed: 7", {"seed": ("7", "null")}),
        ("seed: 7", "seed: null", {"seed": ("null", "7")}),
        ("seed: 1.6e1", "seed: 16", {}),
        ("seed: 1.6e1", "seed: 7", {"seed": ("7", "1.6e1")}),
        ("lr: &l 1e-3", "lr: &r 1e-2", {"lr": ("0.01", "0.001")}),
    ],
)
def test_values_are_compared_not_how_they_are_written(
    clone: Clone, given: str, there: str, changes: dict[str, Any]
) -> None:
    for stack, option in (("dev", given), ("gpu", there)):
        clone.write(stack, f"{HEAD}{JOB}    training:\n      {option}\n")
    (found,) = promotions(*(clone.root / f"stacks/Pulumi.{name}.yaml" for name in ("dev", "gpu")))
    assert found.changes == changes


def test_jobs_go_by_their_names_where_there_are_several(clone: Clone) -> None:
    clone.write("gpu", GPU.replace("job:\n    name: big\n", "jobs:\n  - name: big\n  - name: small\n"))
    clone.commit()
    clone.trained(0.95)
    stack_changes.promote("dev", "gpu", "0.9")
    assert "  - name: small\n    training:\n" in clone.state()[2]
    clone.write("gpu", GPU.replace("job:\n    name: big\n", "jobs:\n  - name: big\n  - name: huge\n"))
    clone.commit()
    assert "no job of the same name" in refusal(clone)


@pytest.mark.parametrize(("stack", "text"), [("dev", DEV), ("gpu", GPU)])
def test_a_job_that_takes_an_earlier_model_is_refused(clone: Clone, stack: str, text: str) -> None:
    clone.write(stack, text.replace("    training:", "    runId: earlier-0a1b2c3d\n    training:"))
    clone.commit()
    assert f"make use RUN=none STACK={stack}" in refusal(clone)


# The gate, without the program behind it.

RUN = "small-12345678"
ASKED = Promotion("small", "big", RUN, {"epochs": ("1", "2")}, (), ())


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Models:
    """A clean clone of two stacks, where nothing is written."""
    models = Models(tmp_path / "models")
    for name in ("dev", "gpu"):
        (tmp_path / f"Pulumi.{name}.yaml").write_text("")
    for module, name, value in (
        (stack_files, "STACKS", tmp_path),
        (stack_changes, "MODELS", models.folder),
        (records, "MODELS", models.folder),
        (protected, "changes", list),
        (venv, "ensure", lambda: None),
        (stack_changes, "_promotions", lambda *_: [ASKED]),
        (stack_changes, "_ensure_fresh", lambda _: pytest.fail("the gate is open")),
        (state, "deployment", lambda stack: {}),
    ):
        monkeypatch.setattr(module, name, value)
    return models


def gate_says(*arguments: str) -> str:
    with pytest.raises(SetupError) as refused:
        stack_changes.promote(*(arguments or ("dev", "gpu", "0.99")))
    return str(refused.value)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("", "", ""), "MIN_ACCURACY is missing"),
        (("dev", "gpu", "99"), "a number from 0 to 1"),
        (("dev", "gpu", "nan"), "a number from 0 to 1"),
        (("dev", "gpu", "much"), "a number from 0 to 1"),
        (("dev", "dev", "0.9"), "FROM and TO are the same stack"),
    ],
)
def test_wrong_arguments_are_refused(gate: Models, arguments: tuple[str, ...], said: str) -> None:
    assert said in gate_says(*arguments)


OTHER = "small-87654321"
RUNS: dict[str, tuple[str, list[dict[str, Any]], str, str]] = {
    # Run, its epochs, its weights, what is said.
    "too low": (
        RUN,
        [epoch(2, 0.98)],
        "w",
        "job small of stack dev has accuracy 0.9800 (run small-12345678); MIN_ACCURACY is 0.99",
    ),
    "unfinished": (RUN, [epoch(1, 0.999)], "", f"run {RUN} of stack dev is not finished: 1 of 2 epochs"),
    "no accuracy": (RUN, [], "w", "reports no accuracy"),
    "another run": (
        OTHER,
        [epoch(2, 0.999)],
        "w",
        f"run {RUN}, which was not trained; the stack's latest run is {OTHER}, trained on digits",
    ),
}


@pytest.mark.parametrize("case", RUNS)
def test_only_the_run_that_is_asked_for_counts_finished_and_good_enough(gate: Models, case: str) -> None:
    run, epochs, weights, told = RUNS[case]
    gate.run(run, *epochs, weights=weights, dataset="digits")
    assert told in gate_says()


def test_without_any_run_it_says_how_to_get_one(gate: Models) -> None:
    assert gate_says().endswith("make up STACK=dev")


@pytest.mark.parametrize(
    ("outputs", "said"),
    [
        ({"jobStatus": "Succeeded", "accuracy": 0.5}, "has accuracy 0.5000"),
        ({"jobStatus": "Succeeded", "accuracy": None}, "reports no accuracy"),
        ({"jobStatus": "Suspended", "accuracy": None}, "which was not trained"),
        ({"jobStatus": "Succeeded", "accuracy": 1.0, "run": "another"}, "which was not trained"),
    ],
)
def test_of_a_volume_elsewhere_the_state_tells(
    gate: Models, monkeypatch: pytest.MonkeyPatch, outputs: dict[str, Any], said: str
) -> None:
    resource = {"type": agreed.RUN, "outputs": {"run": RUN, **outputs}}
    held = json.loads(json.dumps({"resources": [{"type": "pulumi:pulumi:Stack"}, resource]}))
    monkeypatch.setattr(state, "deployment", lambda stack: held if stack == "dev" else {})
    assert said in gate_says()


def test_every_option_of_the_trainer_is_promoted_or_belongs_to_a_place() -> None:
    page = (ROOT / "docs" / "review.md").read_text()
    assert [key for key in (*PROMOTED, *OF_THE_PLACE) if f"`{key}`" not in page] == []

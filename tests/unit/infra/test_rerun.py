"""`make rerun`: the same training once more is another run, which none on this machine has been."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra import dataset, paths, stack_edits
from infra.config import ConfigError, from_file
from infra.config.load import read
from infra.config.training import Dataset

IMAGE = (
    "  trainstack:cluster: {kind: existing}\n  trainstack:image: {reference: localhost/t:1, unpinned: true}\n"
)
ONE = f"config:\n{IMAGE}  trainstack:job:\n    name: mnist # the only one\n    training: {{dataset: auto}}\n"
TWO = f"config:\n{IMAGE}  trainstack:jobs:\n    - name: first\n      rerun: 4\n    - name: second\n"


@pytest.fixture
def stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "Pulumi.dev.yaml").write_text(ONE)
    (tmp_path / "stacks" / "Pulumi.two.yaml").write_text(TWO)
    monkeypatch.setattr(paths, "models", lambda stack: tmp_path / "models" / stack)
    monkeypatch.setattr(dataset, "of_jobs", lambda stack: {job.name: Dataset.DIGITS for job in stack.jobs})
    return tmp_path / "stacks"


def count_up(stacks: Path, stack: str, only: str = "") -> dict[str, int]:
    file = stacks / f"Pulumi.{stack}.yaml"
    stack_edits.count_up(file, found := stack_edits.reruns(from_file(file), only))
    return found


def refused(stacks: Path, stack: str, only: str, match: str) -> None:
    before = (stacks / f"Pulumi.{stack}.yaml").read_text()
    with pytest.raises(ConfigError, match=match):
        count_up(stacks, stack, only)
    assert (stacks / f"Pulumi.{stack}.yaml").read_text() == before


def numbers(stacks: Path, stack: str) -> list[int]:
    return [job.rerun for job in from_file(stacks / f"Pulumi.{stack}.yaml").jobs]


def test_one_line_is_added_and_then_changed(stacks: Path) -> None:
    file = stacks / "Pulumi.dev.yaml"
    for number in (1, 2):
        assert count_up(stacks, "dev") == {"mnist": number}
        assert file.read_text() == ONE.replace("only one\n", f"only one\n    rerun: {number}\n")


@pytest.mark.parametrize(("only", "after"), [("", [5, 1]), ("second", [4, 1])])
def test_of_several_jobs_all_or_one_are_counted_up(stacks: Path, only: str, after: list[int]) -> None:
    count_up(stacks, "two", only)
    assert numbers(stacks, "two") == after
    assert [job["name"] for job in read(stacks / "Pulumi.two.yaml")["jobs"]] == ["first", "second"]


def test_jobs_of_a_matrix_have_the_number_of_their_template(stacks: Path, tmp_path: Path) -> None:
    file = stacks / "Pulumi.dev.yaml"
    file.write_text(f"{ONE}  trainstack:matrix: {{options: {{training.seed: [1, 2]}}}}\n")
    stack = from_file(file)
    job = stack.jobs[1].model_copy(update={"rerun": 1})
    (tmp_path / "models" / "dev" / "runs" / next(stack_edits._runs(stack, job))).mkdir(parents=True)
    count_up(stacks, "dev")
    assert numbers(stacks, "dev") == [2, 2], "a number whose run is there for one of them is passed over"
    refused(stacks, "dev", "mnist-seed-1", "`matrix` makes mnist-seed-1 from `job`")


@pytest.mark.parametrize("which", [0, 1], ids=["of a review", "of this machine"])
def test_a_number_whose_run_is_there_already_is_passed_over(stacks: Path, tmp_path: Path, which: int) -> None:
    """After a revert, for example: its job would find that run finished, and train nothing."""
    stack = from_file(stacks / "Pulumi.dev.yaml")
    job = stack.jobs[0].model_copy(update={"rerun": 1})
    runs = list(stack_edits._runs(stack, job))
    assert runs[0] != runs[1], "auto is MNIST in a review, and digits here"
    (tmp_path / "models" / "dev" / "runs" / runs[which]).mkdir(parents=True)
    count_up(stacks, "dev")
    assert numbers(stacks, "dev") == [2]


def test_a_job_that_there_is_not_is_named(stacks: Path) -> None:
    refused(stacks, "two", "third", "use one of: first, second")


def test_a_job_that_takes_an_earlier_model_is_refused(stacks: Path) -> None:
    text = ONE.replace("only one\n", "only one\n    runId: mnist-0a1b2c3d\n")
    (stacks / "Pulumi.dev.yaml").write_text(text)
    refused(stacks, "dev", "", "make use RUN=none STACK=dev")

"""Without a data set of the user's: the image's digits, README's first change, a crashing job, the next good run."""

from __future__ import annotations

import json
import re

import pytest

from tests.e2e.project import ROOT, Project
from tests.runbooks.readme import replay

ACCURACY_FLOOR = 0.95


@pytest.fixture(scope="module")
def up(project: Project) -> dict[str, str]:
    """The closing lines of `make up` after the files in data/ have gone."""
    return project.up() if project.take_data_away() else project.stand_up()


def test_without_data_the_digits_reach_the_floor(project: Project, up: dict[str, str]) -> None:
    run = project.get("pytorchjob", "pytorch-simple")["metadata"]["labels"]["trainstack/run"]
    config = json.loads((project.models / "runs" / run / "config.json").read_text())
    assert config["dataset"] == "digits"
    assert float(up["accuracy"]) >= ACCURACY_FLOOR


def test_rank_zero_wrote_the_published_log_lines(project: Project, up: dict[str, str]) -> None:
    """Of a run that nobody has interrupted: one that goes on with a checkpoint trains fewer epochs, or none."""
    log = project.run(
        "kubectl", "logs", "--namespace=kubeflow", "--tail=-1", "pytorch-simple-master-0"
    ).stdout
    assert re.search(r"^Train Epoch: 1 \[\d+/\d+ \(\d+%\)\]\tloss=\d+\.\d+$", log, re.MULTILINE)
    assert re.search(r"^accuracy=0\.\d+$", log, re.MULTILINE)
    assert re.search(
        r"^\{metricName: accuracy, metricValue: [\d.]+\};\{metricName: loss, metricValue: [\d.]+\}$",
        log,
        re.MULTILINE,
    )


def test_its_passphrase_is_its_own_and_git_sees_no_change(project: Project, up: dict[str, str]) -> None:
    first = ROOT / ".trainstack" / "passphrase"
    own = (project.root / ".trainstack" / "passphrase").read_text()
    assert own
    assert not first.exists() or first.read_text() != own
    assert project.changed_files() == ""


def test_the_readmes_first_change_replays(project: Project, up: dict[str, str]) -> None:
    """As its reader has it: the stack is up as it is committed, and so is what `make review` writes."""
    assert project.make("review").returncode == 0
    replay(project)


def test_a_crashing_pod_fails_the_run_with_its_last_lines(project: Project, up: dict[str, str]) -> None:
    project.stand_up()
    committed = project.stack_file.read_text()
    crash = ["python3", "-c", "print('just before'); raise SystemExit('the disk is on fire')"]
    project.configure({"trainstack:job": {"command": crash, "restartPolicy": "Never", "training": {}}})

    failed = project.make("up")
    project.stack_file.write_text(committed)

    assert failed.returncode != 0
    assert "just before" in failed.stdout
    assert "the disk is on fire" in failed.stdout
    assert (project.models / "mnist_cnn.pt").is_file(), "the old model is still there"


def test_the_next_good_run_needs_no_repair(project: Project, up: dict[str, str]) -> None:
    again = project.up()
    assert float(again["accuracy"]) >= ACCURACY_FLOOR
    assert again["accuracy"] == up["accuracy"], "same seed, same world size, same model"

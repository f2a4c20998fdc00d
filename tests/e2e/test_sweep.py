"""`make sweep` on a cluster of its own, killed while a trial trains, and gone on with."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
import yaml

from tests.e2e import clones
from tests.e2e.project import Project
from tests.e2e.waiting import wait_until
from tests.matrix.kind_project import UNCHANGED
from toolchain.machine.engine import Engine

pytestmark = pytest.mark.slow(reason="a cluster of its own, and a training for each trial")
JOB = "pytorch-simple"
TRIALS = 3
EPOCHS = 6


@pytest.fixture
def searched(engine: Engine) -> Iterator[Project]:
    """A clone that was never up, whose stack file asks for a small search."""
    with clones.temporary("sweep") as clone:
        options = {"training.lr": {"min": 0.001, "max": 0.1, "log": True}, "training.batchSize": [32, 64]}
        search = {"options": options, "trials": TRIALS, "parallel": 2}
        clone.configure({"trainstack:job": {}, "trainstack:sweep": search})
        settings = yaml.safe_load(clone.stack_file.read_text())
        settings["config"]["trainstack:job"]["training"] |= {"dataset": "digits", "epochs": EPOCHS}
        clone.stack_file.write_text(yaml.safe_dump(settings, sort_keys=False))
        yield clone


def test_a_search_goes_on_after_a_kill_and_leaves_the_stack_as_it_was(searched: Project) -> None:
    text = searched.config()
    trials = searched.models / "sweep" / "runs"
    with searched.making("sweep", log=searched.root / ".trainstack" / "sweep.log") as search:
        begun = f"{JOB}-sweep-*/metrics.jsonl"
        wait_until("a trial trains", lambda: any(trials.glob(begun)) or search.poll() is not None)
        assert search.poll() is None, (searched.root / ".trainstack" / "sweep.log").read_text()
    own = searched.get("pytorchjob", JOB)["metadata"]

    done = searched.make("sweep")
    assert done.returncode == 0, done.stdout
    assert f"search sweep: {TRIALS} trials: {TRIALS} complete" in done.stdout
    (accuracy,) = re.findall(r"^accuracy=(0\.\d+)$", done.stdout.partition("\nbest: ")[2], re.MULTILINE)
    (best,) = re.findall(rf"^best: trial \d, run ({JOB}-sweep-\d-[0-9a-f]{{8}})$", done.stdout, re.MULTILINE)
    found = {}
    for folder in trials.iterdir():
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        epochs = [line for line in lines if "accuracy" in line]
        assert [line["epoch"] for line in epochs] == list(range(1, EPOCHS + 1)), folder.name
        found[folder.name] = round(epochs[-1]["accuracy"], 4)
    assert len(found) == TRIALS, "no trial was trained twice"
    assert found[best] == max(found.values()) == float(accuracy)

    (job,) = searched.get("pytorchjob")["items"]
    assert (job["metadata"]["name"], job["metadata"]["uid"]) == (JOB, own["uid"])
    run = searched.models / "runs" / own["labels"]["trainstack/run"]
    assert (searched.models / "mnist_cnn.pt").read_bytes() == (run / "mnist_cnn.pt").read_bytes()
    assert searched.config() == text
    listed = json.loads(searched.make("-s", "runs", "ARGS=--json").stdout)
    assert {each["run"] for each in listed} == {*found, run.name}

    again = searched.make("-s", "sweep")
    assert again.stdout.endswith(done.stdout[done.stdout.index("search sweep: 3 trials: ") :])
    assert "pulumi up" not in again.stdout
    assert UNCHANGED.search(searched.up()["output"])

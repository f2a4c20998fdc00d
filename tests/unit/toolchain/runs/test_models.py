"""`make models`, and the card that a run gets."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.unit.toolchain.runs.conftest import Models, epoch
from toolchain import __main__ as command
from toolchain.operating import provenance
from toolchain.runs import records


@pytest.fixture
def stacks(models: Models) -> Models:
    """Stack dev's model is of an older run, gpu's of two runs, and nobody has nccl's."""
    models.run("mnist-1", epoch(2, 0.97), weights="first")
    models.run("mnist-2", epoch(2, 0.99), weights="second")
    models.run("mnist-3", epoch(2, 0.5), stack="gpu", weights="third")
    models.run("mnist-4", epoch(2, 0.5), stack="gpu", weights="third")
    (models.folder / "nccl").mkdir()
    for stack, weights in (("dev", "first"), ("gpu", "third"), ("nccl", "second")):
        (models.folder / stack / "mnist_cnn.pt").write_text(weights)
    (models.folder / "dev" / ".mnist_cnn.pt.new").write_text("half")
    return models


def test_each_model_with_its_run(stacks: Models, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["models"]) == 0
    _, dev, gpu, nccl = capsys.readouterr().out.splitlines()
    assert dev.split()[:2] == ["models/dev/mnist_cnn.pt", "mnist-1"]
    assert "0.9700" in dev
    assert gpu.split()[:2] == ["models/gpu/mnist_cnn.pt", "mnist-4"], "the latest of several"
    assert "from no run on this machine" in nccl


def test_the_same_as_json(stacks: Models, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["models", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {each["stack"]: [run["run"] for run in each["runs"]] for each in told} == {
        "dev": ["mnist-1"],
        "gpu": ["mnist-3", "mnist-4"],
        "nccl": [],
    }


def test_no_models(models: Models, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["models"]) == 0
    assert "`make up` makes one" in capsys.readouterr().out


def front_matter(text: str) -> dict[str, Any]:
    _, head, _ = text.split("---\n", 2)
    found = yaml.safe_load(head)
    assert isinstance(found, dict)
    return found


def test_a_card_tells_result_configuration_and_origin(models: Models) -> None:
    folder = models.run("mnist-1", epoch(2, 0.97), weights="first", processor="Some | processor")
    (folder / "origin.json").write_text(json.dumps({"commit": "0123", "clean": False, "image": "sha256:4"}))
    text = provenance.card(records.read(folder))
    head = front_matter(text)
    assert (head["library_name"], head["pipeline_tag"], head["datasets"]) == (
        *("pytorch", "image-classification"),
        ["mnist"],
    )
    (index,) = head["model-index"]
    assert index["name"] == "mnist-1"
    (result,) = index["results"]
    assert result["metrics"] == [{"type": "accuracy", "value": 0.97}]
    assert result["dataset"] == {"name": "mnist", "type": "mnist"}
    for row in (
        "| accuracy | 0.97 |",
        "| lr | 0.01 |",
        "| commit | 0123 |",
        "| processor | Some \\| processor |",
    ):
        assert row in text


@pytest.mark.parametrize("dataset", ["own.data:load", 'x: "y"', "a\nb: c", 5, None])
def test_the_task_of_ones_own_data_is_not_claimed(models: Models, dataset: object) -> None:
    folder = models.run("mnist-1", epoch(2, 0.97), weights="first", dataset=dataset)
    assert front_matter(provenance.card(records.read(folder))) == {
        "library_name": "pytorch",
        "tags": ["trainstack"],
    }


@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl", "origin.json"])
def test_a_card_of_what_is_missing(models: Models, name: str) -> None:
    folder = models.run("mnist-1", epoch(2, 0.97), weights="first")
    (folder / name).unlink(missing_ok=True)
    assert "# mnist-1" in provenance.card(records.read(folder))

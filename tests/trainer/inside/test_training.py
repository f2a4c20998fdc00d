"""Whole jobs, as real processes over gloo."""

import json
import re
from pathlib import Path

import pytest
import torch

from tests.inside.conftest import Job, trainer
from trainer import checkpoint


def test_log_lines_are_those_that_katib_reads(job: Job) -> None:
    output = job.train("--log-interval", "10", world=2)
    assert re.search(r"^Train Epoch: 1 \[0/1442 \(0%\)\]\tloss=2\.\d{4}$", output, re.MULTILINE)
    assert re.search(r"^Train Epoch: 1 \[640/1442 \(44%\)\]\tloss=\d\.\d{4}$", output, re.MULTILINE)
    accuracy = re.search(r"^accuracy=(0\.\d{4})$", output, re.MULTILINE)
    loss = re.search(r"^loss=(\d\.\d{4})$", output, re.MULTILINE)
    assert accuracy
    assert loss
    last = (
        f"{{metricName: accuracy, metricValue: {accuracy[1]}}};{{metricName: loss, metricValue: {loss[1]}}}"
    )
    assert output.splitlines()[-1] == last


def test_a_rank_that_does_not_lead_says_nothing(job: Job) -> None:
    ranks = job.start(world=2)
    assert ranks.wait() == [0, 0]
    assert ranks.output[1] == ""


def test_the_volume_holds_what_is_promised(job: Job) -> None:
    job.train("--epochs", "2", world=2)
    names = {path.name.split(".tfevents")[0] for path in job.folder().iterdir()}
    assert names == {
        *("mnist_cnn.pt", "checkpoint.pt", "checkpoint.previous.pt", "metrics.jsonl", "config.json"),
        *("events.out", "report.html"),
    }
    assert (job.volume / "mnist_cnn.pt").read_bytes() == job.model()
    lines = [json.loads(line) for line in (job.folder() / "metrics.jsonl").read_text().splitlines()]
    assert {"step", "epoch", "loss", "images_per_s", "lr"} <= lines[0].keys()
    assert [line["epoch"] for line in lines if "accuracy" in line] == [1, 2]
    config = json.loads((job.folder() / "config.json").read_text())
    assert (config["network"], config["dataset"], config["world_size"]) == ("lenet", "digits", 2)
    assert "<svg" in (job.folder() / "report.html").read_text()


def test_the_model_is_a_plain_state_dict(job: Job) -> None:
    job.train()
    state = torch.load(job.volume / "mnist_cnn.pt", weights_only=True)
    assert {name: tuple(value.shape) for name, value in state.items()} == {
        "conv1.weight": (20, 1, 5, 5),
        "conv1.bias": (20,),
        "conv2.weight": (50, 20, 5, 5),
        "conv2.bias": (50,),
        "fc1.weight": (500, 800),
        "fc1.bias": (500,),
        "fc2.weight": (10, 500),
        "fc2.bias": (10,),
    }


@pytest.mark.parametrize(("network", "world"), [("lenet", 3), ("convnet", 2)])
def test_the_same_seed_gives_the_same_file(job: Job, world: int, network: str) -> None:
    options = ("--network", network)
    for run in ("a", "b"):
        job.train(*options, world=world, run=run)
    job.train(*options, "--seed", "2", world=world, run="c")
    assert job.model("a") == job.model("b")
    assert job.model("a") != job.model("c")


def test_a_recipe_keeps_its_global_batch_when_the_world_grows(job: Job) -> None:
    losses = {}
    for world in (1, 2, 3):
        job.train("--log-interval", "1", world=world, run=str(world))
        text = (job.folder(str(world)) / "metrics.jsonl").read_text()
        losses[world] = [line["loss"] for line in map(json.loads, text.splitlines()) if "loss" in line]
    assert len(losses[1]) == 23, "1,442 images in global batches of 64"
    assert losses[2] == pytest.approx(losses[1], abs=1e-3)
    assert losses[3] == pytest.approx(losses[1], abs=1e-3)


def test_batch_size_is_per_replica(job: Job) -> None:
    job.train("--batch-size", "64", "--log-interval", "1", world=2)
    lines = (job.folder() / "metrics.jsonl").read_text().splitlines()
    assert sum("lr" in line for line in lines) == 12, "1,442 images in global batches of 128"


@pytest.mark.parametrize("world", [1, 2, 3])
def test_the_reported_result_is_the_saved_files_to_the_last_digit(job: Job, world: int) -> None:
    """The last global batch of 131 has one of the 1,442 images, so that of three ranks two train on none."""
    job.train("--global-batch-size", "131", "--test-batch-size", "100", "--log-interval", "1000", world=world)
    text = (job.folder() / "metrics.jsonl").read_text()
    reported = [line for line in map(json.loads, text.splitlines()) if "accuracy" in line][-1]
    exactly = (
        "from trainer import options, datasets, evaluation, distributed; import json, torch, pathlib\n"
        "config = options.parse(['--dataset', 'digits', '--test-batch-size', '100'])\n"
        f"network = evaluation.load(pathlib.Path({str(job.volume / 'mnist_cnn.pt')!r}))\n"
        "world = distributed.World(0, 1, torch.device('cpu'))\n"
        "metrics = evaluation.evaluate(network, datasets.load(config, 'digits')[1], 100, world)\n"
        "print(json.dumps([metrics.accuracy, metrics.loss]))"
    )
    found = json.loads(trainer(script=exactly).stdout)
    assert found == [reported["accuracy"], reported["test_loss"]]


def test_a_finished_run_reports_again_and_trains_no_more(job: Job) -> None:
    first = job.train(world=2).splitlines()
    model = job.model()
    again = job.train(world=2).splitlines()
    assert again[-1] == first[-1]
    assert not any(line.startswith("Train Epoch") for line in again)
    assert job.model() == model


def test_without_a_writable_volume_it_trains_and_says_so(job: Job, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    output = job.train("--log-interval", "1000", TRAINER_MODEL_DIR=missing)
    assert f"{missing} cannot be written: the model is not saved" in output
    assert output.splitlines()[-1].startswith("{metricName: accuracy")


def test_save_model_then_writes_into_the_working_directory(job: Job, tmp_path: Path) -> None:
    ranks = job.start("--save-model", TRAINER_MODEL_DIR=str(tmp_path / "missing"))
    assert ranks.wait() == [0]
    assert torch.load(ranks.folder / "mnist_cnn.pt", weights_only=True)


def test_dir_takes_the_events(job: Job, tmp_path: Path) -> None:
    job.train("--dir", str(tmp_path / "logs"))
    assert len(list((tmp_path / "logs").glob("events.out.tfevents.*"))) == 1


def test_digits_reach_the_floor_in_twelve_epochs(job: Job) -> None:
    output = job.train("--epochs", "12", "--log-interval", "1000", world=2)
    assert float(re.findall(r"^accuracy=(.*)$", output, re.MULTILINE)[-1]) >= 0.95


def test_nccl_without_a_gpu_says_what_to_change() -> None:
    done = trainer("--backend", "nccl", "--dataset", "digits")
    assert done.returncode == 1
    assert done.stderr.startswith("error: --backend nccl needs a GPU in every replica")
    assert "use --backend gloo" in done.stderr


def test_a_lone_rank_needs_no_process_group(job: Job) -> None:
    assert "accuracy=" in job.train("--dataset", "digits", MASTER_ADDR="nowhere.invalid")


@pytest.mark.parametrize("path", ["/opt/pytorch-mnist/mnist.py", "/opt/mnist/src/mnist_training.py"])
def test_the_published_paths_train(path: str) -> None:
    done = trainer("--epochs=1", "--dataset", "digits", script=Path(path).read_text())
    assert "metricName: accuracy" in done.stdout


def test_a_checkpoint_of_other_options_is_refused_on_every_rank(job: Job) -> None:
    job.train(world=2)
    ranks = job.start("--lr", "0.02", world=2)
    assert ranks.wait() == [1, 1]
    assert all("lr: checkpoint 0.01, now 0.02" in output for output in ranks.output)


def test_a_damaged_checkpoint_is_passed_over(job: Job) -> None:
    job.train("--epochs", "2", run="whole")
    job.train("--epochs", "2")
    model = job.model()
    path = job.folder() / checkpoint.NAME
    path.write_bytes(path.read_bytes()[:-1000])
    output = job.train("--epochs", "2")
    assert "is damaged; set aside as checkpoint.pt.damaged" in output
    assert "resumed at epoch 2, image 0" in output
    assert job.model() == model == job.model("whole")

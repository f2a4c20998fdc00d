"""Whole jobs, as real processes over gloo."""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from tests.inside.conftest import TINY, Job, Ranks, trainer
from trainer import volume
from trainer.launch import ExitStatus

Usual = tuple[Job, Ranks]
PARTS = ["data", "forward", "loss", "backward", "exchange", "optimizer"]


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Usual:
    """A run of two ranks with all defaults."""
    job = Job(tmp_path_factory.mktemp("usual") / "volume")
    job.volume.mkdir()
    ranks = job.start(world=2)
    assert ranks.wait() == [0, 0], ranks.output
    return job, ranks


def test_log_lines_are_those_that_katib_reads(usual: Usual) -> None:
    output = usual[1].output[0]
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


def test_a_rank_that_does_not_lead_says_nothing(usual: Usual) -> None:
    assert usual[1].output[1] == ""


def test_a_finished_run_that_is_started_again_is_the_current_one_without_training(job: Job) -> None:
    """So does a revert in a repository whose merges are applied: it makes the older run's job again."""
    current = job.volume / "mnist_cnn.pt"
    first = job.train(world=2, run="older")
    before = {path.name: path.read_bytes() for path in job.folder("older").iterdir() if path.suffix == ".pt"}
    job.train("--epochs", "2", world=2, run="newer")
    assert current.read_bytes() == job.model("newer") != before["mnist_cnn.pt"]
    output = job.train(world=2, run="older")
    assert "Train Epoch" not in output
    assert output.splitlines()[-1] == first.splitlines()[-1], "its metrics are told again"
    assert current.read_bytes() == before["mnist_cnn.pt"]
    assert before.items() <= {path.name: path.read_bytes() for path in job.folder("older").iterdir()}.items()


def test_the_volume_holds_what_is_promised(job: Job) -> None:
    job.train("--epochs", "2", world=2)
    names = {path.name.split(".tfevents")[0] for path in job.folder().iterdir()}
    assert names == {
        *("mnist_cnn.pt", "checkpoint.pt", "checkpoint.previous.pt", "metrics.jsonl", "config.json"),
        *("events.out", "report.html", "mnist_cnn.best.pt"),
    }
    assert (job.volume / "mnist_cnn.pt").read_bytes() == job.model()
    lines = [json.loads(line) for line in (job.folder() / "metrics.jsonl").read_text().splitlines()]
    assert {"step", "epoch", "loss", "images_per_s", "lr"} <= lines[0].keys()
    assert [line["epoch"] for line in lines if "accuracy" in line] == [1, 2]
    config = json.loads((job.folder() / "config.json").read_text())
    assert (config["network"], config["dataset"], config["world_size"]) == ("lenet", "digits", 2)
    assert "<svg" in (job.folder() / "report.html").read_text()


def test_the_model_is_a_plain_state_dict(usual: Usual) -> None:
    state = torch.load(usual[0].volume / "mnist_cnn.pt", weights_only=True)
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


@pytest.mark.sampled(1)
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
        f"network = evaluation.load(pathlib.Path({str(job.volume / 'mnist_cnn.pt')!r}), {{}})\n"
        "world = distributed.World(0, 1, torch.device('cpu'))\n"
        "metrics = evaluation.evaluate(network, datasets.load(config, 'digits')[1], 100, world)\n"
        "print(json.dumps([metrics.accuracy, metrics.loss]))"
    )
    found = json.loads(trainer(script=exactly).stdout)
    assert found == [reported["accuracy"], reported["test_loss"]]


# The published pytorch-simple manifest mounts no volume, and some clusters make the image read-only.
WITHOUT_VOLUME = """
from pathlib import Path
from trainer import __main__, options
options.MODEL_DIR = Path("/nowhere/models")
__main__.run()
"""


def test_without_a_volume_it_trains_and_says_so(job: Job) -> None:
    ranks = job.start("--log-interval", "1000", script=WITHOUT_VOLUME, TRAINER_MODEL_DIR="")
    assert ranks.wait() == [0]
    assert "/nowhere/models cannot be written: the model is not saved" in ranks.output[0]
    assert ranks.output[0].splitlines()[-1].startswith("{metricName: accuracy")


def test_save_model_then_writes_into_the_working_directory(job: Job) -> None:
    ranks = job.start("--save-model", script=WITHOUT_VOLUME, TRAINER_MODEL_DIR="")
    assert ranks.wait() == [0]
    assert torch.load(ranks.folder / "mnist_cnn.pt", weights_only=True)


def test_dir_takes_the_events(job: Job, tmp_path: Path) -> None:
    job.train("--dir", str(tmp_path / "logs"))
    assert len(list((tmp_path / "logs").glob("events.out.tfevents.*"))) == 1


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


def test_more_epochs_go_on_where_the_run_stopped(job: Job) -> None:
    job.train(*TINY, "--epochs", "3", run="whole", world=2)
    job.train(*TINY, "--epochs", "1", world=2)
    output = job.train(*TINY, "--epochs", "3", world=2)
    assert "resumed at epoch 2, image 0" in output
    assert job.model() == job.model("whole")
    ranks = job.start(*TINY, "--epochs", "2")
    assert ranks.wait() == [1]
    assert "the run has 3 epochs already, and --epochs asks for 2" in ranks.output[0]


def test_a_schedule_over_the_whole_run_takes_no_more_epochs(job: Job) -> None:
    cosine = ("--schedule", "cosine", "--epochs")
    job.train(*cosine, "1")
    ranks = job.start(*cosine, "2")
    assert ranks.wait() == [1]
    assert "epochs: checkpoint 1, now 2" in ranks.output[0]


def test_a_run_starts_from_a_given_model(job: Job) -> None:
    first = job.train("--epochs", "3", run="first")
    model = str(job.folder("first") / "mnist_cnn.pt")
    output = job.train("--from", model, "--lr", "0", world=2)
    accuracies = [re.findall(r"^accuracy=.*$", text, re.MULTILINE) for text in (first, output)]
    assert accuracies[1] == accuracies[0][-1:]
    ranks = job.start("--from", model, "--network", "fast", run="other", world=2)
    assert ranks.wait() == [1, 1]
    assert "is no model of --network fast" in ranks.output[1]
    ranks = job.start("--from", "nowhere.pt", run="missing", world=2)
    assert ranks.wait() == [1, 1]
    assert "nowhere.pt: No such file" in ranks.output[1]


def accuracies(job: Job, run: str = "run") -> list[float]:
    lines = map(json.loads, (job.folder(run) / "metrics.jsonl").read_text().splitlines())
    return [line["accuracy"] for line in lines if "accuracy" in line]


def test_the_best_model_is_kept_beside_the_last(job: Job) -> None:
    own = ("--network", "tests.inside.own:Fading", "--data", "tests.inside.own:numbers")
    job.train(*own, "--lr", "1", "--momentum", "0", "--global-batch-size", "8", "--epochs", "4", world=2)
    assert accuracies(job) == [-1 / 8, -2 / 8, -3 / 8, -4 / 8]
    best, last = job.folder() / "mnist_cnn.best.pt", job.volume / "mnist_cnn.pt"
    for model, accuracy in ((best, "-0.1250"), (last, "-0.5000")):
        assert f"accuracy={accuracy}" in trainer("evaluate", str(model)).stdout


@pytest.mark.sampled(3)
@pytest.mark.parametrize("network", ["Fading", "Tally"])
@pytest.mark.parametrize("first", ["1", "2"])
def test_a_run_that_goes_on_with_more_epochs_keeps_the_same_best_model(
    job: Job, first: str, network: str
) -> None:
    """Of Fading it is the first epoch's, of Tally the last one's. One epoch alone has none beside its model."""
    own = ("--network", f"tests.inside.own:{network}", "--data", "tests.inside.own:numbers", "--lr", "1")
    options = (*own, "--momentum", "0", "--global-batch-size", "8", "--epochs")
    job.train(*options, "3", run="whole")
    job.train(*options, first)
    best = job.folder() / volume.BEST
    assert best.exists() == (first != "1")
    job.train(*options, "3")
    assert best.read_bytes() == (job.folder("whole") / volume.BEST).read_bytes()


def test_it_stops_when_nothing_improves(job: Job) -> None:
    options = (*TINY, "--epochs", "9", "--patience", "2", "--lr", "0")
    output = job.train(*options, world=2)
    assert len(accuracies(job)) == 3, "the first, and two more without a better accuracy"
    assert "stopped after epoch 3: best was 1" in output
    assert "Train Epoch" not in job.train(*options, world=2)


def test_a_checkpoint_by_time_saves_a_job_of_one_epoch(job: Job) -> None:
    """Nothing but kill -9 ends it, in its first epoch."""
    script = (
        "import os, signal\n"
        "from trainer import __main__, train\n"
        "step = train.Training.step\n"
        "def dying(self, share, lr):\n"
        "    step(self, share, lr)\n"
        "    if self.progress.step == 15:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "train.Training.step = dying\n"
        "__main__.run()\n"
    )
    assert job.start("--checkpoint-seconds", "0", script=script).wait() == [-9]
    assert "resumed at epoch 1, image 960" in job.train()


def test_training_goes_on_while_a_checkpoint_is_written(job: Job) -> None:
    """Each takes the time of three steps; the next one by time is begun after it."""
    job.train(run="undisturbed")
    script = (
        "import time\n"
        "from trainer import __main__, checkpoint, train\n"
        "running, step, save = [], train.Training.step, checkpoint.save\n"
        "def noting(self, share, lr):\n"
        "    running[:] = [self]\n"
        "    step(self, share, lr)\n"
        "def slow(folder, progress, state):\n"
        "    save(folder, progress, state)\n"
        "    now = running[0]\n"
        "    while now.progress.epoch == progress.epoch == 1 and now.progress.step < progress.step + 3:\n"
        "        time.sleep(0.001)\n"
        "    print(f'step {progress.step} saved at {running[0].progress.step}', flush=True)\n"
        "train.Training.step, checkpoint.save = noting, slow\n"
        "__main__.run()\n"
    )
    ranks = job.start("--checkpoint-seconds", "0.001", script=script)
    assert ranks.wait() == [0], ranks.output
    saved = [
        (int(of), int(at)) for of, at in re.findall(r"^step (\d+) saved at (\d+)$", ranks.output[0], re.M)
    ]
    *by_time, (last, _) = saved
    assert len(by_time) >= 2
    assert all(at >= min(of + 3, last) for of, at in by_time), saved
    assert all(later >= at for (_, at), (later, _) in pairwise(saved)), "one after the other"
    assert job.model() == job.model("undisturbed")


def test_each_step_has_its_checkpoint_also_after_the_slow_one_of_an_epoch(job: Job) -> None:
    script = (
        "import time\n"
        "from trainer import __main__, checkpoint\n"
        "save = checkpoint.save\n"
        "def slow(folder, progress, state):\n"
        "    if progress.images == 0:\n"
        "        time.sleep(0.5)\n"
        "    save(folder, progress, state)\n"
        "    print('saved step', progress.step, flush=True)\n"
        "checkpoint.save = slow\n"
        "__main__.run()\n"
    )
    ranks = job.start(*TINY, "--checkpoint-seconds", "0", "--epochs", "2", script=script)
    assert ranks.wait() == [0], ranks.output
    saved = {int(step) for step in re.findall(r"^saved step (\d+)$", ranks.output[0], re.MULTILINE)}
    assert saved == set(range(1, 2 * 6 + 1))


# The first checkpoint, after the first epoch, cannot be written.
FAILING = """
import os, time
from trainer import __main__, checkpoint, train, volume
step = train.Training.step
def save(folder, progress, state):
    time.sleep(0.2)
    raise volume.VolumeError("the disk is full")
def broken(self, share, lr):
    step(self, share, lr)
    if self.progress.epoch == 2:
        time.sleep(0.02)
        if os.environ["BREAKS"] == "yes":
            raise train.DivergedError("the loss is nan")
train.Training.step, checkpoint.save = broken, save
__main__.run()
"""


def test_a_checkpoint_that_cannot_be_written_ends_the_run_within_the_epoch(job: Job) -> None:
    ranks = job.start("--checkpoint-seconds", "3600", "--epochs", "3", script=FAILING, BREAKS="no")
    assert ranks.wait() == [ExitStatus.VOLUME], ranks.output
    assert "error: the disk is full" in ranks.output[0]
    assert len(accuracies(job)) == 1


def test_it_does_not_hide_why_the_run_ended(job: Job) -> None:
    ranks = job.start("--checkpoint-seconds", "3600", "--epochs", "3", script=FAILING, BREAKS="yes")
    assert ranks.wait() == [ExitStatus.DIVERGED], ranks.output
    assert "error: the loss is nan" in ranks.output[0]
    assert "warning: the disk is full" in ranks.output[0]


def test_accumulation_clipping_and_weight_decay_reach_the_steps(job: Job) -> None:
    def losses(run: str, *options: str) -> list[float]:
        job.train("--log-interval", "1", *options, run=run)
        lines = map(json.loads, (job.folder(run) / "metrics.jsonl").read_text().splitlines())
        return [line["loss"] for line in lines if "lr" in line]

    plain = losses("plain")
    assert losses("accumulate", "--accumulate", "3") == pytest.approx(plain, abs=1e-4)
    assert losses("clip", "--clip", "1e-9") == pytest.approx(losses("still", "--lr", "0"), abs=1e-5)
    assert losses("decay", "--weight-decay", "5")[-1] != pytest.approx(plain[-1], abs=1e-4)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("options", [(), ("--accumulate", "2"), ("--epochs", "2")], ids=" ".join)
def test_a_profile_says_where_a_step_spends_its_time(job: Job, options: tuple[str, ...]) -> None:
    output = job.train("--profile", *options, world=2)
    found = re.findall(r"^(\w+) +(\d+\.\d{3}) ms +(\d+\.\d)%$", output, re.MULTILINE)
    assert [name for name, _, _ in found] == [*PARTS, "rest", "step"]
    times, shares = [float(time) for _, time, _ in found], [float(share) for _, _, share in found]
    assert sum(times[:-1]) == pytest.approx(times[-1], abs=0.01)
    assert sum(shares[:-1]) == pytest.approx(shares[-1], abs=0.5)
    assert shares[-1] == 100
    events = json.loads((job.folder() / "trace.json").read_text())["traceEvents"]
    steps = 46 if "--epochs" in options else 23
    assert sum(event["name"] == "optimizer" for event in events) == steps, "1,442 images, 64 a step"
    spent = sum(event["dur"] for event in events if event["name"] == "exchange") / steps / 1000
    assert spent == pytest.approx(times[PARTS.index("exchange")], abs=0.002)


def test_a_checkpoint_of_other_options_is_refused_on_every_rank(usual: Usual) -> None:
    ranks = usual[0].start("--lr", "0.02", world=2)
    assert ranks.wait() == [1, 1]
    assert all("lr: checkpoint 0.01, now 0.02" in output for output in ranks.output)

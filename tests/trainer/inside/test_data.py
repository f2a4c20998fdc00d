"""Finding, fetching, describing data; reading a saved model back."""

import http.server
import json
import os
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from PIL import Image

from tests.inside.conftest import Job, copy, trainer
from trainer import checkpoint, idx, options
from trainer.launch import ExitStatus


class Counting(http.server.SimpleHTTPRequestHandler):
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        super().do_GET()

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def mirror(mnist: Path) -> Iterator[str]:
    Counting.asked = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Counting, directory=str(mnist)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def test_ranks_on_one_node_download_once(mirror: str, tmp_path: Path) -> None:
    command = ["inspect", "--dataset", "mnist", "--mirror", mirror]
    command += ["--data-dir", str(tmp_path / "data"), "--baked-dir", "/nowhere"]
    with ThreadPoolExecutor(3) as pool:
        ranks = list(pool.map(lambda n: trainer(*command, "--png", str(tmp_path / f"{n}.png")), range(3)))
    assert all("train: 60000x28x28" in rank.stdout for rank in ranks)
    assert len(Counting.asked) == 4


def test_a_download_that_was_cut_off_is_made_anew(mirror: str, mnist: Path, tmp_path: Path) -> None:
    copy(sorted(mnist.glob("train-*.gz")), tmp_path / "mnist")
    options = (
        "--dataset",
        "mnist",
        "--mirror",
        mirror,
        "--data-dir",
        str(tmp_path),
        "--baked-dir",
        "/nowhere",
    )
    done = trainer("inspect", *options, "--png", str(tmp_path / "s.png"))
    assert "test: 10000x28x28" in done.stdout
    assert not list(tmp_path.rglob(".part"))
    # And from then on it is what `auto` finds.
    found = trainer("inspect", "--data-dir", str(tmp_path), "--png", str(tmp_path / "s.png"))
    assert f"mnist from {tmp_path}/mnist" in found.stdout


TORCHVISION = """
import gzip, sys
from pathlib import Path
from torchvision import datasets
from trainer import __main__, idx

class KMNIST:
    def __init__(self, root, download):
        raw = Path(root) / "KMNIST" / "raw"
        raw.mkdir(parents=True)
        for name in idx.FILES:
            (raw / name).write_bytes(Path("/datasets/digits", name).read_bytes())
            (raw / f"{name}.gz").write_bytes(gzip.compress((raw / name).read_bytes(), mtime=0))
            idx.PACKED_CHECKSUMS["kmnist"][name] = idx._md5((raw / f"{name}.gz").read_bytes())

datasets.KMNIST = KMNIST
sys.exit(__main__.main(sys.argv[1:]))
"""


def test_torchvisions_download_is_verified_and_kept_packed(tmp_path: Path) -> None:
    """A torchvision that has the digits instead of KMNIST, and leaves both forms of each file as it does."""
    command = ["inspect", "--dataset", "kmnist", "--data-dir", str(tmp_path)]
    done = trainer(*command, "--png", str(tmp_path / "s.png"), script=TORCHVISION)
    assert f"kmnist from {tmp_path}/kmnist" in done.stdout, done.stderr
    assert {path.name for path in (tmp_path / "kmnist").iterdir()} == {
        ".lock",
        *(f"{name}.gz" for name in idx.FILES),
    }


def test_files_of_another_data_set_are_no_obstacle(mnist: Path, tmp_path: Path) -> None:
    copy(sorted(mnist.glob("t10k-*.gz")), tmp_path)
    done = trainer(
        "inspect", "--dataset", "digits", "--data-dir", str(tmp_path), "--png", str(tmp_path / "s.png")
    )
    assert "digits from /datasets/digits" in done.stdout
    done = trainer("--dataset", "kmnist", "--no-download", "--data-dir", str(tmp_path))
    assert "kmnist is in none of" in done.stderr


def test_what_is_no_url_is_said(tmp_path: Path) -> None:
    done = trainer("--dataset", "kmnist", "--mirror", "example.org", "--data-dir", str(tmp_path))
    assert done.returncode == 1
    assert "cannot be fetched" in done.stderr
    assert "check --mirror" in done.stderr


def test_a_mirror_that_serves_something_else_is_noticed(mirror: str, tmp_path: Path) -> None:
    options = ("--dataset", "fashion-mnist", "--mirror", mirror, "--data-dir", str(tmp_path))
    done = trainer(*options)
    assert done.returncode == 1
    assert "expected md5 f4a8712d7a061bf5bd6d2ca38dc4d50a, found 6bbc9ace" in done.stderr
    assert not list(tmp_path.rglob("*.gz")), "what is wrong is not kept"


def test_inspect_describes_mnist(mnist: Path, tmp_path: Path) -> None:
    png = tmp_path / "samples.png"
    done = trainer("inspect", "--data-dir", str(mnist), "--png", str(png))
    assert "train: 60000x28x28 torch.uint8 mean=0.1307 std=0.3081 classes=[5923, 6742, 5958," in done.stdout
    assert "test: 10000x28x28" in done.stdout
    with Image.open(png) as picture:
        assert picture.size == (560, 350)


def test_a_validation_split_is_cut_off_the_training_images(mnist: Path, tmp_path: Path) -> None:
    done = trainer("inspect", "--validation", "--data-dir", str(mnist), "--png", str(tmp_path / "s.png"))
    assert "train: 55000x28x28" in done.stdout
    assert "validation: 5000x28x28" in done.stdout


def test_auto_is_what_the_data_directory_holds_else_digits(mnist: Path, tmp_path: Path) -> None:
    png = str(tmp_path / "samples.png")  # which is in nobody's way
    assert "mnist from /mnist" in trainer("inspect", "--data-dir", str(mnist), "--png", png).stdout
    for _ in range(2):
        found = trainer("inspect", "--data-dir", str(tmp_path), "--png", png)
        assert "digits from /datasets/digits" in found.stdout, found.stderr


def test_evaluate_says_what_the_job_said(job: Job) -> None:
    output = job.train("--epochs", "2")
    reported = re.findall(r"^(?:accuracy|loss)=.*$", output, re.MULTILINE)[-2:]
    for model in (job.volume / "mnist_cnn.pt", job.folder() / "mnist_cnn.pt"):
        done = trainer("evaluate", str(model))
        assert done.stdout.splitlines() == ["measured on digits: 355 test examples", *reported]


def test_evaluate_measures_what_the_job_measured(job: Job, mnist: Path) -> None:
    output = job.train("--test-batch-size", "7")
    done = trainer("evaluate", str(job.folder() / "mnist_cnn.pt"), "--data-dir", str(mnist))
    assert done.stdout.splitlines()[1:] == output.splitlines()[-3:-1], "on digits, though MNIST is at hand"
    config = json.loads((job.folder() / "config.json").read_text())
    assert (config["dataset"], config["test_batch_size"]) == ("digits", 7)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", ["1", "4", "-3"])
@pytest.mark.parametrize("described", [True, False], ids=["described", "known by its run"])
def test_evaluate_splits_one_s_own_data_as_the_job_did(job: Job, seed: str, described: bool) -> None:
    own = ("--data", "tests.inside.own:split", "--global-batch-size", "16", "--seed", seed)
    reported = job.train(*own).splitlines()[-3:-1]
    model = job.volume / "mnist_cnn.pt"
    if not described:
        for path in (model, job.folder() / "mnist_cnn.pt"):
            path.write_bytes(plain(job))
    assert trainer("evaluate", str(model)).stdout.splitlines()[1:] == reported
    others = {
        tuple(trainer("evaluate", str(model), "--seed", str(n)).stdout.splitlines()[1:]) for n in (7, 8)
    }
    assert others - {tuple(reported)}, "whoever names another seed measures on another split"


def test_a_model_of_mnist_is_not_measured_on_digits(job: Job, mnist: Path) -> None:
    """Wherever the file lies, and with nothing but digits at hand."""
    options = (
        "--dataset",
        "mnist",
        "--data-dir",
        str(mnist),
        "--network",
        "fast",
        "--log-interval",
        "100000",
    )
    output = job.train(*options, "--global-batch-size", "2000", "--no-bf16")
    (elsewhere := job.volume.parent / "copy.pt").write_bytes((job.volume / "mnist_cnn.pt").read_bytes())
    for model in (job.volume / "mnist_cnn.pt", elsewhere):
        done = trainer("evaluate", str(model), "--data-dir", str(mnist))
        first, *rest = done.stdout.splitlines()
        assert (first, rest) == ("measured on mnist: 10000 test examples", output.splitlines()[-3:-1])
        done = trainer("evaluate", str(model), "--no-download")
        assert done.returncode == 1
        assert "mnist is in none of " in done.stderr


def plain(job: Job) -> bytes:
    """The run's model as it was before models had descriptions."""
    state = torch.load(job.volume / "mnist_cnn.pt", weights_only=True)
    return checkpoint.dump(state)


def test_a_model_without_a_description_is_known_by_its_run(job: Job) -> None:
    job.train(run="a")
    job.train("--seed", "2", run="b")
    for path in (job.volume / "mnist_cnn.pt", job.folder("b") / "mnist_cnn.pt"):
        path.write_bytes(plain(job))
    for model in (job.volume / "mnist_cnn.pt", job.folder("b") / "mnist_cnn.pt"):
        assert trainer("evaluate", str(model)).stdout.startswith("measured on digits: 355")


def test_a_model_that_nobody_knows_is_not_measured_on_a_guess(job: Job, tmp_path: Path) -> None:
    job.train()
    (model := tmp_path / "found.pt").write_bytes(plain(job))
    done = trainer("evaluate", str(model))
    assert done.returncode == 1
    assert "name the data with --dataset or --data" in done.stderr
    assert trainer("evaluate", str(model), "--dataset", "digits").stdout.startswith("measured on digits: 355")


def test_a_user_s_own_network_is_measured_on_its_own_data(job: Job) -> None:
    own = ("--data", "tests.inside.own:colours", "--network", "tests.inside.own:Normed")
    output = job.train(*own, "--epochs", "2", world=2)
    done = trainer("evaluate", str(job.volume / "mnist_cnn.pt"))
    assert done.stdout.splitlines() == [
        "measured on tests.inside.own:colours: 30 test examples",
        *output.splitlines()[-3:-1],
    ]
    assert (
        "predict reads 28x28 pictures only"
        in trainer("predict", str(job.volume / "mnist_cnn.pt"), "x").stderr
    )


def test_predict_reads_pictures(job: Job, tmp_path: Path) -> None:
    job.train("--epochs", "12", "--log-interval", "1000")
    paths = []
    raw = Path("/datasets/digits/t10k-images-idx3-ubyte").read_bytes()[16:]
    labels = Path("/datasets/digits/t10k-labels-idx1-ubyte").read_bytes()[8:]
    for number in range(20):
        picture = Image.frombytes("L", (28, 28), raw[784 * number : 784 * (number + 1)])
        if number % 2:
            picture = Image.eval(picture, lambda grey: 255 - grey).resize((56, 56))
        paths.append(tmp_path / f"{number}.png")
        picture.save(paths[-1])
    done = trainer("predict", str(job.volume / "mnist_cnn.pt"), *map(str, paths))
    found = [int(line.rsplit(": ", 1)[1].split()[0]) for line in done.stdout.splitlines()]
    assert sum(one == label for one, label in zip(found, labels, strict=False)) >= 17


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mnist_cnn.pt"
    path.write_bytes(b"nonsense")
    done = trainer("evaluate", str(path), "--dataset", "digits")
    assert done.returncode == 1
    assert "is not a whole state_dict" in done.stderr
    assert "No such file" in trainer("predict", str(tmp_path / "missing.pt"), "x.png").stderr


def test_what_is_no_picture_is_refused(job: Job, tmp_path: Path) -> None:
    job.train()
    model, picture = str(job.volume / "mnist_cnn.pt"), tmp_path / "x.png"
    assert "a picture cannot be read: " in trainer("predict", model, str(picture)).stderr
    picture.write_bytes(b"nonsense")
    done = trainer("predict", model, str(picture))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "a picture cannot be read: " in done.stderr


def test_a_checkpoint_is_no_model(job: Job, tmp_path: Path) -> None:
    job.train()
    (path := tmp_path / "checkpoint.pt").write_bytes((job.folder() / "checkpoint.pt").read_bytes())
    done = trainer("evaluate", str(path), "--dataset", "digits")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "a checkpoint is not a model" in done.stderr


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (
            ("train.csv", "test.csv", "sample_submission.csv"),
            "sample_submission.csv, test.csv, train.csv: name",
        ),
        (("train/", "labels.csv"), "labels.csv, train: name"),
        ((os.fsdecode(b"caf\xe9.csv"),), r"caf\xe9.csv: name"),
        (tuple(f"{number}.png" for number in range(7)), "4.png and 2 more: name"),
        (("mnist/", "train.csv"), "but train.csv: name"),
    ],
    ids=str,
)
@pytest.mark.parametrize("verb", [(), ("inspect",)], ids=str)
def test_auto_takes_other_files_not_for_the_digits(
    verb: tuple[str, ...], names: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    """Kaggle's digit-recognizer has train.csv and test.csv."""
    for name in names:
        (tmp_path / name).mkdir() if name.endswith("/") else (tmp_path / name).touch()
    done = trainer(*verb, "--data-dir", str(tmp_path))
    assert done.returncode == ExitStatus.REFUSED, done.stdout
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"error: --dataset auto finds no data set that it knows in {tmp_path}, but ")
    assert told in last
    assert last.endswith("or choose --dataset digits, which is in the image")
    assert "Train Epoch" not in done.stdout


@pytest.mark.parametrize(
    "names", [(), (".cache", "lost+found", "README", "notes.md"), options.DATASETS], ids=str
)
def test_auto_passes_over_what_is_no_data(names: tuple[str, ...], tmp_path: Path) -> None:
    for name in names:
        (tmp_path / name).mkdir()
    done = trainer("inspect", "--data-dir", str(tmp_path), "--png", str(tmp_path / "samples.png"))
    assert "digits from /datasets/digits" in done.stdout, done.stderr


@pytest.mark.parametrize("closed", [".", "mnist", *idx.FILES])
def test_data_that_cannot_be_read_are_named(closed: str, tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    place = tmp_path if closed in idx.FILES else tmp_path / "mnist"
    copy([Path("/datasets/digits", name) for name in idx.FILES], place)
    (tmp_path / closed).chmod(0)
    try:
        done = trainer("--data-dir", str(tmp_path))
    finally:
        (tmp_path / closed).chmod(0o700)
    assert done.returncode == ExitStatus.REFUSED, done.stdout
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"error: {tmp_path if closed == '.' else tmp_path / closed}"), last
    assert "cannot be read (Permission denied); let user 1000 or group 0 read it" in last
    assert "Traceback" not in done.stderr


NO_TEXT = os.fsdecode(b"caf\xe9")


@pytest.mark.parametrize(
    ("arguments", "environ"),
    [
        (("--data-dir", NO_TEXT), {}),
        (("--from", f"{NO_TEXT}.pt"), {}),
        (("predict", "model.pt", f"{NO_TEXT}.png"), {}),
        (("data", "verify", NO_TEXT), {}),
        ((), {"TRAINER_RUN": NO_TEXT}),
    ],
    ids=ascii,
)
def test_a_name_that_is_not_utf_8_is_refused_before_anything_is_done(
    arguments: tuple[str, ...], environ: dict[str, str]
) -> None:
    done = trainer(*arguments, **environ)
    assert done.returncode == ExitStatus.REFUSED, done.stdout
    assert re.fullmatch(
        r"error: .*caf\\xe9.* is not UTF-8; give the file or folder another name", done.stderr.strip()
    )

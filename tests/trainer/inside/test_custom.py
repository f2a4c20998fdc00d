"""A user's own network and data, by name, without a fork."""

import itertools
import json
import random
import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import numpy
import pytest
import torch

from tests.inside import others, own
from tests.inside.conftest import Job, trainer
from tests.inside.own import NUMBERS
from trainer import custom, examples
from trainer.draws import drawn_by
from trainer.launch import ExitStatus

OWN = "tests.inside.own"
NORMED = ("--network", f"{OWN}:Normed", "--recipe", "fast", "--no-bf16")
BATCH = ("--global-batch-size", "20", "--log-interval", "1")


def losses(job: Job, run: str) -> list[float]:
    lines = map(json.loads, (job.folder(run) / "metrics.jsonl").read_text().splitlines())
    return [line["loss"] for line in lines if "lr" in line]


@pytest.mark.parametrize("data", ["colours", "files", "streams"])
def test_any_size_channels_and_classes_learn(job: Job, data: str) -> None:
    """The last global batch of 96 has 16 examples."""
    output = job.train("--data", f"{OWN}:{data}", *NORMED, *BATCH, "--epochs", "6", world=2)
    assert float(re.findall(r"^accuracy=(.*)$", output, re.MULTILINE)[-1]) >= 0.9
    state = torch.load(job.volume / "mnist_cnn.pt", weights_only=True)
    assert state["layers.0.weight"].shape == (8, 3, 3, 3)
    assert state["layers.9.weight"].shape == (5, 800)


def test_a_map_style_data_set_trains_as_its_tensors_do(job: Job) -> None:
    for data in ("colours", "files"):
        job.train("--data", f"{OWN}:{data}", *NORMED, *BATCH, world=2, run=data)
    assert losses(job, "colours") == losses(job, "files")


def test_one_s_own_network_trains_on_a_named_data_set(job: Job) -> None:
    output = job.train(*NORMED, "--epochs", "2", world=2)
    assert "accuracy=" in output
    assert json.loads((job.folder() / "config.json").read_text())["network"] == f"{OWN}:Normed"


def test_loss_metric_and_summary_are_the_network_s(job: Job) -> None:
    options = ("--network", f"{OWN}:Tally", "--data", f"{OWN}:numbers", "--lr", "1", "--momentum", "0")
    output = job.train(*options, "--global-batch-size", "8", "--epochs", "3", world=3)
    weights = torch.load(job.volume / "mnist_cnn.pt", weights_only=True)["weights.weight"]
    assert torch.equal(weights, torch.full((NUMBERS, 1), -3 / 8)), "each example once an epoch"
    assert "accuracy=0.3750\nloss=-0.3750\n" in output
    assert "least -0.375, most -0.375" in output


@pytest.mark.parametrize("network", ["Tally", "Normed"])
@pytest.mark.parametrize("smoothing", [(), ("--label-smoothing", "0.2"), ("--recipe", "fast")], ids=" ".join)
def test_label_smoothing_without_use_is_warned_about_once(
    job: Job, smoothing: tuple[str, ...], network: str
) -> None:
    """A loss of the network's own does without; what only the recipe asks for is no option."""
    data = "numbers" if network == "Tally" else "tiny"
    options = ("--network", f"{OWN}:{network}", "--data", f"{OWN}:{data}", *smoothing, "--no-bf16")
    ranks = job.start(*options, "--global-batch-size", "16", world=2)
    assert ranks.wait() == [0, 0], ranks.output
    warned = [output.count("warning: --label-smoothing has no effect") for output in ranks.output]
    assert warned == [int(network == "Tally" and "--label-smoothing" in smoothing), 0]


def test_the_function_gets_what_it_names(job: Job) -> None:
    output = job.train("--data", f"{OWN}:described", "--seed", "4", "--data-dir", "/some/where")
    assert "called with /some/where and 4" in output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--network", "nowhere:Net"),
            "--network nowhere:Net: No module named 'nowhere'; put the module's folder on PYTHONPATH",
        ),
        (("--network", f"{OWN}:Nothing"), "module 'tests.inside.own' has no attribute 'Nothing'"),
        (("--network", f"{OWN}:NoModule"), "is no torch.nn.Module with parameters"),
        (("--network", f"{OWN}:WrongLoss"), "have to give one number for each example"),
        (("--data", "nowhere:data"), "--data nowhere:data: No module named 'nowhere'"),
        (("--data", f"{OWN}:one_part"), "has to return two parts"),
        (("--data", f"{OWN}:without_length"), "has no length; say how many examples make an epoch"),
        (
            ("--data", f"{OWN}:colours", "--network", "lenet"),
            "does not take the data, inputs of shape (3, 3, 20, 24)",
        ),
        (("--data", f"{OWN}:short_stream", *NORMED), "an epoch ended after 96 examples of 200"),
        (("--data", f"{OWN}:short_test_stream", *NORMED), "an epoch ended after 30 examples of 31"),
        (("--data", f"{OWN}:tiny", "--validation"), "let --data return the validation part"),
        (("--optimizer", "Adamm"), "torch.optim has no Adamm; it has ASGD, "),
        (("--optimizer", "AdamW", "--optimizer-args", '{"speed": 1}'), "unexpected keyword argument 'speed'"),
        (("--schedule", "Nothing"), "torch.optim.lr_scheduler has no Nothing; it has "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_used_is_explained(options: tuple[str, ...], message: str) -> None:
    done = trainer("--dataset", "digits", *options)
    assert done.returncode == ExitStatus.REFUSED, done.stderr
    assert message in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: ")


@pytest.mark.parametrize(
    "options",
    [
        ("--network", "resnet"),
        ("--network", "a b:c"),
        ("--data", "mnist"),
        ("--optimizer-args", "[1]"),
        ("--clip", "-1"),
    ],
    ids=" ".join,
)
def test_what_is_no_reference_is_refused_by_its_form(options: tuple[str, ...]) -> None:
    done = trainer(*options)
    assert done.returncode == 2
    assert f"argument {options[0]}: " in done.stderr


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("found", range(9))
def test_a_stream_that_is_shorter_than_its_length_is_refused_by_each_rank(found: int, size: int) -> None:
    """Sums over what there is would be divided by the length."""
    part = own.pictures(found, (1, 28, 28), 10, 1)
    streamed = examples.Streamed(own.Stream(part, length=9))
    ways: list[Callable[[], Iterable[object]]] = [
        partial(streamed.batches, 4, rank, size) for rank in range(size)
    ]
    ways += [partial(streamed.shares, 1, 1, 0, 4, rank, size) for rank in range(size)]
    for read in ways:
        with pytest.raises(custom.CustomError, match=f"an epoch ended after {found} examples of 9"):
            list(read())
    if found < 2:
        with pytest.raises(custom.CustomError, match=f"an epoch ended after {found} examples of 9"):
            streamed.first()


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("there", [9, 10])
def test_a_stream_is_read_up_to_its_length(there: int, size: int) -> None:
    streamed = examples.Streamed(own.Stream(own.pictures(there, (1, 28, 28), 10, 1), length=9))
    read = [
        [(number, len(targets)) for number, _, targets in streamed.batches(4, rank, size)]
        for rank in range(size)
    ]
    assert sorted(itertools.chain(*read)) == [(0, 4), (1, 4), (2, 1)]


def test_what_a_map_style_data_set_draws_depends_on_the_place_and_disturbs_nobody() -> None:
    train, _ = own.jittered(lambda: float(torch.rand(())) + numpy.random.random() + random.random())
    mapped = examples.Mapped(train)

    def read(seed: int = 1, start: int = 0, rank: int = 0) -> float:
        return float(next(mapped.shares(1, seed, start, 8, rank, 2)).inputs.sum())

    states = torch.get_rng_state(), random.getstate(), numpy.random.get_state()[1].tolist()
    whole = [float(share.inputs.sum()) for share in mapped.shares(1, 1, 0, 8, 0, 2)]
    assert whole == [read(start=start) for start in range(0, 96, 8)]
    assert len({read(), read(seed=2), read(start=8), read(rank=1)}) == 4
    assert mapped.fingerprint() == mapped.fingerprint()
    now = torch.get_rng_state(), random.getstate(), numpy.random.get_state()[1].tolist()
    assert torch.equal(now[0], states[0])
    assert now[1:] == states[1:]


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize(
    "name", ["in_order", "shuffle", "generator", "subset", "weighted", "told", "batches"]
)
def test_shares_are_the_batches_of_the_loader(name: str, drop_last: bool) -> None:
    """In each epoch the joint batches are those that torch's own loader makes, the last one too."""
    loader, _ = others.sampled(name, drop_last)
    part, theirs = examples.examples(loader, "train on"), others.sampled(name, drop_last)[0].batch_sampler
    orders = set()
    for epoch in (1, 2):
        with drawn_by(epoch):
            if hasattr(theirs.sampler, "set_epoch"):
                theirs.sampler.set_epoch(epoch)
            if getattr(theirs.sampler, "generator", None):
                theirs.sampler.generator.manual_seed(epoch)
            wanted = [loader.dataset[batch][0] for batch in theirs]
        for size in (1, 2, 3):
            shares = [list(part.shares(epoch, epoch, 0, 16, rank, size)) for rank in range(size)]
            found = [torch.cat([each.inputs for each in step]) for step in zip(*shares, strict=True)]
            assert all(torch.equal(*pair) for pair in zip(found, wanted, strict=True))
            assert {each.total for each in shares[0]} == part.totals(16)
        orders.add(tuple(torch.cat(wanted)[:, 0, 0, 0].tolist()))
    assert len(orders) == (1 if name == "in_order" else 2)


def test_a_loader_of_a_stream_leaves_the_last_step_out() -> None:
    loader, _ = others.streams_that_drop()
    part = examples.examples(loader, "train on")
    found = [[share.total for share in part.shares(1, 1, 0, 16, rank, 2)] for rank in range(2)]
    assert found == [[16] * 6] * 2
    assert part.totals(16) == {16}


def test_parts_are_what_the_documentation_lists() -> None:
    assert isinstance(examples.examples((torch.zeros(2, 3), torch.zeros(2)), "train on"), examples.Tensors)
    with pytest.raises(custom.CustomError, match="2 inputs to train on, but 3 targets"):
        examples.examples((torch.zeros(2), torch.zeros(3)), "train on")
    with pytest.raises(custom.CustomError, match="there is no example to test on"):
        examples.examples((torch.zeros(0), torch.zeros(0)), "test on")


@pytest.mark.parametrize("closed", [".", "mine", "mine/nets", "mine/nets/net.py"])
def test_a_project_that_cannot_be_read_is_named(closed: str, tmp_path: Path) -> None:
    """Python says that there is no such module."""
    (tmp_path / "mine" / "nets").mkdir(parents=True)
    for name in ("mine/__init__.py", "mine/nets/__init__.py", "mine/nets/net.py"):
        (tmp_path / name).write_text("from torch import nn\nNet = nn.Flatten\n")
    (tmp_path / closed).chmod(0)
    try:
        done = trainer("--network", "mine.nets.net:Net", PYTHONPATH=str(tmp_path))
    finally:
        (tmp_path / closed).chmod(0o700)
    assert done.returncode == ExitStatus.REFUSED, done.stdout
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: --network mine.nets.net:Net: ")
    assert str(tmp_path if closed == "." else tmp_path / closed) in last
    assert "cannot be read: let user 1000" in last or "Permission denied" in last
    assert "Traceback" not in done.stderr

"""Any network and any data: trained as a plain loop of torch trains it, on any number of ranks and through a kill, or
refused in a sentence before anything is trained.

Killed and resumed against whole, on the same ranks: equal to the bit. One rank against the loop: to the bit. Two and
three ranks against the loop over the joint batch: within 1e-5, where a network's outputs for one example do not depend
on the others; else against the loop over each rank's share in turn.

Where a network or data may be either taken or refused, this is decided:

BatchNorm and a share of one example    refused before training, with the options to change
double, bfloat16, complex parameters    train as in torch; one of whole numbers stays as it is. Outputs of 16 bits are
                                        float32 for the loss
NumPy arrays, lists, pairs of them      taken
rows that are dictionaries, PIL         refused by name, as are sparse tensors: only a collate_fn knows what they mean
torchvision's vit_b_16                  refused on pictures of another size than 224, with torchvision's own words
a weight that forward itself changes    Embedding(max_norm), ActNorm: trains on one rank; on several the run ends after
                                        the epoch in which ranks differ, with the name of the weight
classes of a Subset, classes = 5        found
numbers drawn from torch, NumPy, Python seeded for each purpose. A generator of one's own is warned about where a
                                        network or a map-style data set has it, and refused in a stream or a sampler
streams that shuffle                    each example once an epoch, as their random numbers are the epoch's
SyncBatchNorm on processors             trains on one rank, refused on several, as torch has it for GPUs only
a tensor that is no buffer              trains; refused where another rank, or the start that goes on, has other numbers
torch.compile                           passed over with a warning; torch.jit and sparse parameters are refused
LBFGS, SparseAdam                       refused; a sparse gradient is made dense
sampler and drop_last of a DataLoader   heeded; another batch_sampler, batch_size=None and DistributedSampler refused
models larger than one replica          no code: docs/trainer.md says why
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy
import pytest
import torch
from torch import Tensor, nn

from tests.inside.conftest import Job
from tests.inside.own import NUMBERS
from tests.inside.test_resume import SCRIPT
from trainer import draws, examples, networks
from trainer.compatibility import OUTPUTS, differing
from trainer.draws import seed_of
from trainer.examples import classes_of
from trainer.exchange import same
from trainer.launch import ExitStatus

OWN, OTHERS = "tests.inside.own", "tests.inside.others"
EPOCHS, BATCH, SEED = 2, 16, 1
OPTIONS = ("--global-batch-size", str(BATCH), "--epochs", str(EPOCHS), "--checkpoint-seconds", "0")
WORLDS = (1, 2, 3)


def reference(name: str) -> str:
    return name if ":" in name else f"{OTHERS}:{name}"


@dataclass(frozen=True)
class Trained:
    """A network that trains on some data.

    Parameters:
        joint: whether shares of a step add up to what the joint batch gives.
        worlds: numbers of ranks that it trains on.
        batch: examples of a step; the victim is killed in the ninth one, which has to be in the second epoch.
        optimizer: options, and torch's of the same meaning.
    """

    network: str
    data: str = f"{OWN}:tiny"
    joint: bool = True
    worlds: tuple[int, ...] = WORLDS
    options: tuple[str, ...] = ()
    batch: int = BATCH
    optimizer: Callable[[list[Tensor]], torch.optim.Optimizer] = lambda each: torch.optim.SGD(
        each, lr=0.01, momentum=0.5
    )

    @property
    def id(self) -> str:
        return " ".join((self.network, self.data, *self.options)).replace(f"{OWN}:", "")


def adamw(parameters: list[Tensor]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=0.01)


def adam(parameters: list[Tensor]) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=0.01)


ADAMW, ADAM = ("--optimizer", "AdamW"), ("--optimizer", "adam", "--lr", "0.01")
TRAINED = (
    Trained("AssignedMean", joint=False),
    Trained("HiddenMean", joint=False),
    Trained("Turning"),
    Trained("Counter"),
    Trained("Queue", joint=False),
    Trained("Largest", joint=False),
    Trained("Unset"),
    Trained("Spread"),
    Trained("Total", joint=False),
    Trained("Graph"),
    Trained("GraphOfRows"),
    Trained("MovedGraph", joint=False),
    Trained("MovedGraphOfRows", joint=False),
    Trained("LastLoss"),
    Trained("Observed", joint=False),
    Trained("quantized", joint=False),
    Trained("Double"),
    Trained("Bfloat16", joint=False),
    Trained("Complex"),
    Trained("Reordered"),
    Trained("Turns", options=ADAMW, optimizer=adamw),
    Trained("Turns", options=ADAM, optimizer=adam),
    Trained("TiedData"),
    Trained("Adversarial", joint=False),
    Trained("SparseWords", "words"),
    Trained("Renormed", "words", worlds=(1,), options=("--lr", "0.01")),
    Trained("ActNorm", worlds=(1,)),
    Trained("compiled"),
    Trained("compiled_to_machine_code"),
    Trained("Linear", "of_90"),
    Trained("normed", "of_90", joint=False),
    Trained("Tutorial", joint=False),
    Trained("Standardised", f"{OWN}:colours"),
    Trained("Shuffled", f"{OWN}:colours"),
    Trained("Deep", "volumes"),
    Trained("DeepNormed", "volumes", joint=False),
    Trained("lazy"),
    Trained("normed", joint=False),
    Trained("synchronised", joint=False, worlds=(1,)),
    Trained("WithOptions"),
    Trained("instance"),
    Trained("torchvision.models:resnet18", f"{OWN}:colours", joint=False, worlds=(1,)),
    Trained("transformer", "squares"),
    Trained("Dropped", joint=False),
    Trained("DroppedByNumpy", joint=False),
    Trained("BegunByNumpy"),
    Trained("NumpyFeatures"),
    Trained("Regression", "values"),
    Trained("OneLogit", "yes_or_no"),
    Trained("Linear", "arrays"),
    Trained("Linear", "mixed"),
    Trained("Linear", "lists"),
    Trained("Linear", "subsets"),
    Trained("Linear", "counted_classes"),
    Trained("Linear", "unseeded_split"),
    Trained("Linear", "unseeded_arrays"),
    Trained("WithOptions", "loaders"),
    Trained("WithOptions", "loaders_with_workers"),
    Trained("WithOptions", "loaders_that_drop"),
    Trained("WithOptions", "subset"),
    Trained("WithOptions", "subset_that_drops"),
    Trained("WithOptions", "weighted"),
    Trained("WithOptions", "told_epochs"),
    Trained("WithOptions", "batched", batch=8),
    Trained("Linear", "streams_that_drop"),
    Trained("WithOptions", "loaders_in_order"),
    Trained("Padded", "loaders_that_pad"),
    Trained(f"{OWN}:Tally", "shuffling", batch=8),
    Trained(f"{OWN}:Tally", "shuffling_by_torch", batch=8),
    Trained(f"{OWN}:Tally", "shuffling_by_numpy", batch=8),
)


def cases() -> Iterator[object]:
    for case in TRAINED:
        for world in case.worlds:
            yield pytest.param(case, world, id=f"{case.id} {world}")


def seeded(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed % (1 << 32))


def set_buffer(network: nn.Module, name: str, value: Tensor) -> None:
    path, _, own = name.rpartition(".")
    network.get_submodule(path)._buffers[own] = value.clone()


def plain(case: Trained, ranks: int) -> dict[str, Tensor]:
    """What a loop of torch makes of the same first weights and the same order, over `ranks` shares of each step.

    With BatchNorm's statistics as the mean of the shares by their size, and other buffers as the first share has them.
    """
    train, _ = examples.parts(reference(case.data), seed=SEED)
    shape = tuple(train.first()[0].shape[1:])
    if case.network == "instance":  # a new process draws its weights as it imports the module
        sys.modules.pop(OTHERS, None)
    network = networks.build(reference(case.network), SEED, shape, classes_of(train))
    network = getattr(network, "_orig_mod", network)  # of torch.compile
    if reference(case.network).endswith(":lazy"):
        with draws.drawn_by(SEED), torch.no_grad():
            network(train.first()[0])
    norms = [each for each in network.modules() if isinstance(each, nn.modules.batchnorm._BatchNorm)]
    optimizer = case.optimizer([each for each in network.parameters() if each.requires_grad])
    network.train()
    step = 0
    for epoch in range(1, EPOCHS + 1):
        for share in train.shares(epoch, seed_of(SEED, epoch), 0, case.batch, 0, 1):
            optimizer.zero_grad()
            before = {name: each.clone() for name, each in network.named_buffers()}
            turn = getattr(network, "turn", None)
            after: list[dict[str, Tensor]] = []
            parts = zip(share.inputs.tensor_split(ranks), share.targets.tensor_split(ranks), strict=True)
            for rank, (inputs, targets) in enumerate(parts):
                if rank:
                    for name, value in before.items():
                        if not same(dict(network.named_buffers())[name], value):
                            set_buffer(network, name, value)
                    if turn is not None:
                        network.turn = turn
                seeded(seed_of(SEED, epoch, step, rank))
                gradients = [each.grad for each in network.parameters()]
                for each in network.parameters():
                    each.grad = None
                outputs = network(inputs)
                if hasattr(network, "loss"):
                    losses = network.loss(outputs, targets)
                else:
                    outputs = outputs.float() if outputs.dtype is torch.bfloat16 else outputs
                    losses = nn.functional.cross_entropy(outputs, targets, reduction="none")
                (losses.sum() / len(share.targets)).backward()
                for each, earlier in zip(network.parameters(), gradients, strict=True):
                    if each.grad is not None and each.grad.is_sparse:
                        each.grad = each.grad.to_dense()
                    if earlier is not None:
                        each.grad = earlier if each.grad is None else earlier + each.grad
                after.append({name: each.clone() for name, each in network.named_buffers()})
            with torch.no_grad():
                if ranks > 1:
                    there = dict(network.named_buffers())
                    weights = [len(part) / len(share.targets) for part in share.targets.tensor_split(ranks)]
                    averaged = {id(each) for norm in norms for each in (norm.running_mean, norm.running_var)}
                    for name, each in there.items():
                        if id(each) in averaged:
                            mean = sum(
                                w * (one[name] - before[name]) for w, one in zip(weights, after, strict=True)
                            )
                            each.copy_(before[name] + mean)
                        elif not same(each, after[0][name]):
                            set_buffer(network, name, after[0][name])
            optimizer.step()
            step += 1
    return {**dict(network.named_parameters()), **dict(network.named_buffers())}


def compare(found: dict[str, Tensor], wanted: dict[str, Tensor], tolerance: float) -> None:
    for name, value in found.items():
        expected = wanted[name.removeprefix("_orig_mod.")].detach().to_dense()
        value = value.to_dense()
        if (tolerance and value.dtype.is_floating_point) or value.is_complex():
            torch.testing.assert_close(value, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
        else:
            assert torch.equal(value, expected) or torch.isnan(expected).all(), name


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("case", "world"), cases())
def test_it_trains_as_a_plain_loop_does_also_when_it_is_killed(job: Job, case: Trained, world: int) -> None:
    options = ("--network", reference(case.network), "--data", reference(case.data), *OPTIONS, *case.options)
    options += ("--global-batch-size", str(case.batch))
    whole = job.start(*options, world=world, run="whole", script=SCRIPT, VICTIM="none")
    assert whole.wait() == [0] * world, whole.output
    assert ("ignores torch.compile" in whole.output[0]) is case.network.startswith("compiled")
    ranks = job.start(*options, world=world, script=SCRIPT, VICTIM=str(world - 1))
    ranks.supervise()
    assert (ranks.folder / "died").exists(), "the victim lived and was killed"
    assert re.search(r"^resumed at epoch 2, image \d+$", ranks.output[0], re.MULTILINE), ranks.output[0]
    assert job.model() == job.model("whole")
    found = torch.load(job.folder("whole") / "mnist_cnn.pt", weights_only=True)
    if world == 1:
        compare(
            found, plain(case, 1), 1e-6 if case.network in ("Complex", "torchvision.models:resnet18") else 0
        )
    else:
        tolerance = 1e-12 if case.network == "Double" else 0.01 if case.network == "Bfloat16" else 1e-5
        compare(found, plain(case, 1 if case.joint else world), tolerance)


REFUSED = (
    # network, data, options, ranks, what the message says
    ("normed", "of_33", ("--global-batch-size", "32"), 1, "an epoch has a share of one example"),
    ("normed", "of_35", ("--global-batch-size", "32"), 2, "an epoch has a share of one example"),
    ("normed", f"{OWN}:tiny", ("--accumulate", "16"), 1, "an epoch has a share of one example"),
    ("synchronised", f"{OWN}:tiny", (), 2, "does not take the data"),
    (
        "Linear",
        "rows",
        (),
        1,
        "an example to train on has the type dict, and is not a pair of input and target",
    ),
    ("Linear", "named_inputs", (), 1, "is a pair whose input has the type dict; make it a tensor"),
    ("Linear", "sparse", (), 1, "the part to train on has no rows that can be indexed: torch.sparse_coo"),
    ("Linear", "sparse_rows", (), 1, "examples to train on are sparse tensors; make them dense"),
    ("Linear", "pil", (), 1, "is a pair whose input has the type Image; make it a tensor"),
    ("Linear", "lengths", (), 1, "examples to train on do not go together"),
    ("WithOptions", "loaders_of_batches", (), 1, "has its own batch_sampler"),
    ("WithOptions", "loaders_without_batches", (), 1, "has no batch_size"),
    ("WithOptions", "by_itself", (), 2, "gives other examples each time that it is asked"),
    ("WithOptions", "endless", (), 1, "does not end"),
    ("WithOptions", "fewer", (), 1, "gave 99 examples, and 98 in epoch 1"),
    (
        "WithOptions",
        "named",
        (),
        1,
        "cannot be read: TypeError: 'str' object cannot be interpreted as an integer",
    ),
    ("WithOptions", "split_by_itself", (), 2, "differ in data or first weights (train: 80 "),
    ("Linear", "unknown_labels", (), 1, "targets to test on go from"),
    ("Linear", "missing_labels", (), 1, "targets to train on go from -1"),
    ("torchvision.models:vit_b_16", f"{OWN}:colours", (), 1, "Wrong image height"),
    ("Needing", f"{OWN}:tiny", (), 1, "missing 1 required positional argument: 'hidden'"),
    (
        "SparseWeight",
        f"{OWN}:tiny",
        (),
        1,
        "has a sparse parameter, mixing; make it dense, or register it as a buffer",
    ),
    ("scripted", f"{OWN}:tiny", (), 1, "is made by torch.jit; give the original module"),
    ("Auxiliary", f"{OWN}:tiny", (), 1, "in training: forward returns a tuple"),
    ("Mapping", f"{OWN}:tiny", (), 1, "forward returns a dict"),
    ("OneTuple", f"{OWN}:tiny", (), 1, "forward returns a tuple"),
    ("Asserting", f"{OWN}:tiny", (), 1, "AssertionError: Wrong size"),
    ("WithoutLoss", "values", (), 1, "give the network a loss(outputs, targets)"),
    ("WrongMean", "pairs", (), 1, "one number for each example; for 3 examples the "),
    ("Linear", f"{OWN}:tiny", ("--optimizer", "LBFGS"), 1, "no LBFGS that steps by gradients alone"),
    (
        "Linear",
        f"{OWN}:tiny",
        ("--optimizer", "SparseAdam"),
        1,
        "no SparseAdam that steps by gradients alone",
    ),
    (f"{OWN}:Tally", "shuffling_by_itself", (), 1, "gives other examples each time that it is read"),
    (
        "FeaturesByItself",
        f"{OWN}:tiny",
        (),
        2,
        "before it is trained (outputs on the first examples, waves: ",
    ),
    ("ForgottenMean", f"{OWN}:tiny", (), 2, "after epoch 1 (outputs on the first examples, mean: "),
    ("Renormed", "words", ("--lr", "1"), 2, "differ in what they have trained in epoch 1 (table.weight: "),
    ("ActNorm", f"{OWN}:tiny", (), 2, "differ in what they have trained in epoch 1 (scale: "),
    ("Linear", "ended", (), 1, "there is no train.csv"),
    ("Gathering", f"{OWN}:tiny", (), 1, "Default process group has not been initialized"),
    ("Gathering", f"{OWN}:tiny", (), 2, "allgather would wait for ever or fail: replicas have different"),
    ("Reducing", f"{OWN}:tiny", (), 3, "allreduce would wait for ever or fail: replicas have different"),
    ("FunctionalGathering", f"{OWN}:tiny", (), 2, "would wait for ever or fail: replicas have different"),
    ("GatheringInTraining", "of_35", ("--global-batch-size", "32"), 2, "fail: in the last step of an epoch"),
)


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    ("network", "data", "options", "world", "message"),
    REFUSED,
    ids=[" ".join((*each[:2], str(each[3]))) for each in REFUSED],
)
def test_it_is_refused_in_a_sentence(
    job: Job, network: str, data: str, options: tuple[str, ...], world: int, message: str
) -> None:
    chosen = ("--network", reference(network), "--data", reference(data), *OPTIONS, *options)
    ranks = job.start(*chosen, world=world)
    assert ranks.wait() == [ExitStatus.REFUSED] * world, ranks.output
    assert "Traceback" not in ranks.output[0]
    last = ranks.output[0].splitlines()[-1]
    assert last.startswith("error: ")
    assert message in last
    assert "Train Epoch" not in ranks.output[0] or "epoch 1" in message
    assert not (job.volume / "mnist_cnn.pt").exists()


@pytest.mark.parametrize(
    ("network", "options"), [("Gathering", ("--test-batch-size", "16")), ("GatheringInTraining", ())]
)
def test_ranks_may_call_each_other_where_their_examples_are_shared_out_evenly(
    job: Job, network: str, options: tuple[str, ...]
) -> None:
    for name in (network, "Linear"):
        chosen = ("--network", f"{OTHERS}:{name}", "--data", f"{OWN}:tiny", *OPTIONS, *options)
        job.train(*chosen, world=2, run=name)
    found, wanted = (torch.load(job.folder(name) / "mnist_cnn.pt") for name in (network, "Linear"))
    assert all(torch.equal(found[name], value) for name, value in wanted.items())


@pytest.mark.parametrize(
    ("data", "named"),
    [
        ("gone", r"/data/caf\udce9.png"),
        ("gone_for_workers", r"/data/caf\udce9.png"),
        ("gone_from_a_stream", "/data/40.png"),
    ],
)
def test_an_example_that_cannot_be_read_is_named_when_its_turn_comes(job: Job, data: str, named: str) -> None:
    ranks = job.start("--network", f"{OTHERS}:Linear", "--data", f"{OTHERS}:{data}", *OPTIONS)
    assert ranks.wait() == [ExitStatus.REFUSED], ranks.output
    assert "Traceback" not in ranks.output[0]
    last = ranks.output[0].splitlines()[-1]
    assert last.startswith("error: --data: an example to train on cannot be read: PermissionError: ")
    assert named in last


def test_classes_named_by_bytes_that_are_no_text_are_reported(job: Job) -> None:
    job.train("--network", f"{OTHERS}:Linear", "--data", f"{OTHERS}:named_by_bytes", *OPTIONS)
    assert r"caf\udce9 4" in (job.folder() / "report.html").read_text()


def test_an_edited_network_goes_on_by_name(job: Job) -> None:
    options = ("--network", f"{OTHERS}:Ordered", "--data", f"{OWN}:tiny", *OPTIONS)
    job.train(*options, run="whole")
    first = job.start(*options, script=SCRIPT, VICTIM="0")
    assert first.wait() == [-9]
    wider = job.start(*options, EDITED="wider")
    assert wider.wait() == [ExitStatus.REFUSED]
    assert "first.weight: checkpoint (32, 784) float32, now (40, 784) float32" in wider.output[0]
    assert "resumed at epoch 2" in job.train(*options, EDITED="order")
    found, wanted = (torch.load(job.folder(run) / "mnist_cnn.pt") for run in ("run", "whole"))
    assert all(torch.equal(found[name], value) for name, value in wanted.items())


def test_data_that_another_start_orders_otherwise_are_refused_when_a_run_goes_on(job: Job) -> None:
    options = ("--network", f"{OTHERS}:SparseWords", "--data", f"{OTHERS}:another_vocabulary", *OPTIONS)
    first = job.start(*options, script=SCRIPT, VICTIM="0")
    assert first.wait() == [-9]
    again = job.start(*options, START="7")
    assert again.wait() == [ExitStatus.REFUSED]
    assert "belongs to a run with another data (train_data: checkpoint " in again.output[0]


@pytest.mark.parametrize(
    ("network", "named"),
    [
        ("FeaturesByItself", "outputs on the first examples, waves"),
        ("ForgottenMean", "outputs on the first examples, mean"),
        ("Edited", "outputs on the first examples"),
    ],
)
def test_a_network_that_another_start_makes_otherwise_is_refused_when_a_run_goes_on(
    job: Job, network: str, named: str
) -> None:
    options = ("--network", f"{OTHERS}:{network}", "--data", f"{OWN}:tiny", *OPTIONS)
    first = job.start(*options, script=SCRIPT, VICTIM="0")
    assert first.wait() == [-9]
    again = job.start(*options, EDITED="1")
    assert again.wait() == [ExitStatus.REFUSED], again.output
    last = again.output[0].splitlines()[-1]
    assert last.startswith(f"error: the network differs from the checkpoint's ({named}: ")


def test_a_machine_of_another_kind_may_round_otherwise() -> None:
    """Where all is as before, each bit counts."""
    outputs = torch.linspace(-1, 1, 100, dtype=torch.double)
    outputs[3] = float("nan")
    rounded = {"values": {OUTPUTS: outputs + 0.001, "waves": outputs}, "machine": "one"}
    for machine, values, found in (
        ("one", outputs + 0.001, []),
        ("one", outputs, [OUTPUTS]),
        ("another", outputs, []),
        ("another", outputs + 0.1, [OUTPUTS]),
        ("another", outputs[:99], [OUTPUTS]),
    ):
        now = {"values": {OUTPUTS: values, "waves": outputs}, "machine": machine}
        assert differing(rounded, now) == found


def test_the_loss_leads_where_there_is_no_metric(job: Job) -> None:
    """Regression, and one logit: hits of the largest output would be the same in each epoch."""
    for network, data in (("Regression", "values"), ("OneLogit", "yes_or_no")):
        options = ("--network", f"{OTHERS}:{network}", "--data", f"{OTHERS}:{data}", "--patience", "1")
        output = job.train(*options, "--global-batch-size", "16", "--epochs", "4", run=network)
        found = [float(each) for each in re.findall(r"^accuracy=(.*)$", output, re.MULTILINE)]
        assert found == sorted(set(found)), "each epoch is better than the one before"
        assert len(found) == 4
        assert found == [-float(each) for each in re.findall(r"^loss=(.*)$", output, re.MULTILINE)]


@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize("data", ["shuffling", "shuffling_by_torch", "shuffling_by_numpy"])
def test_a_stream_that_shuffles_gives_each_example_once_an_epoch(job: Job, data: str, world: int) -> None:
    options = ("--network", f"{OWN}:Tally", "--data", f"{OTHERS}:{data}", "--lr", "1", "--momentum", "0")
    job.train(*options, "--global-batch-size", "8", "--epochs", "3", world=world)
    weights = torch.load(job.volume / "mnist_cnn.pt", weights_only=True)["weights.weight"]
    assert torch.equal(weights, torch.full((NUMBERS, 1), -3 / 8))


@pytest.mark.parametrize(
    ("network", "data", "option"),
    [("Linear", f"{OTHERS}:generating", "--data"), ("Noisy", f"{OWN}:tiny", "--network")],
)
def test_a_generator_of_one_s_own_is_told(job: Job, network: str, data: str, option: str) -> None:
    ranks = job.start("--network", f"{OTHERS}:{network}", "--data", data, *OPTIONS)
    assert ranks.wait() == [0], ranks.output
    assert re.findall("^warning: (.*) draws from its own generator", ranks.output[0], re.MULTILINE) == [
        option
    ]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("start", range(10))
@pytest.mark.parametrize("data", ["pooled", "futures", "looked_at_first", "preloaded", "pool_stream"])
def test_worker_processes_end(job: Job, data: str, start: int) -> None:
    """Fifty starts. A worker that inherits our handler of SIGTERM does not end, or ends the job."""
    output = job.train(
        "--network", f"{OTHERS}:Linear", "--data", f"{OTHERS}:{data}", "--global-batch-size", "16"
    )
    assert "accuracy=" in output

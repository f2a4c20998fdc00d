"""Exact test metrics, over one process or many; `trainer evaluate` and `trainer predict`."""

from __future__ import annotations

import argparse
import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from trainer import checkpoint, datasets, networks, options, volume
from trainer.custom import Objective, kept
from trainer.distributed import World
from trainer.examples import Examples, classes_of
from trainer.networks import normalize
from trainer.pictures import read_picture
from trainer.precision import whole_float32


@dataclass(frozen=True)
class Predictions:
    """The classes that a network predicted for test examples.

    Parameters:
        numbers: the examples' numbers, (n,), from 0.
        targets: their classes, (n,).
        predicted: the classes with the largest output, (n,).
        confidence: the probabilities of the predicted classes, (n,), above 0 and at most 1.
    """

    numbers: Tensor
    targets: Tensor
    predicted: Tensor
    confidence: Tensor


@dataclass(frozen=True)
class Metrics:
    """Means over all test examples; accuracy is the network's own metric if it has one."""

    accuracy: float
    loss: float
    predictions: Predictions | None = field(default=None, compare=False, repr=False)


class ModelError(Exception):
    """A model, its data or a picture cannot be used; the message says why."""


def evaluate(
    network: nn.Module, test: Examples, batch_size: int, world: World, keep: bool = False
) -> Metrics:
    """Metric and mean loss of `network` on the whole of `test`, the same on every rank.

    The network is unchanged, also if `forward` counts something. Each batch goes whole to one rank, and each batch has
    its own sums until all batches are done. So no digit of the result depends on the number of ranks.

    Parameters:
        keep: whether to also keep the predictions of a network that classifies.
    """
    objective = Objective(network)
    sums = torch.zeros(-(-len(test) // batch_size), 2, dtype=torch.float64, device=world.device)
    answers = torch.zeros(len(test) if keep else 0, 3, dtype=torch.float64, device=world.device)
    with kept(network), torch.no_grad(), whole_float32():
        network.eval()
        for number, inputs, targets in test.batches(batch_size, world.rank, world.size):
            outputs = network(inputs)
            metric, loss = objective.measures(outputs, targets)
            sums[number, 0] = metric.double().sum()
            sums[number, 1] = loss.double().sum()
            if keep:
                predicted = outputs.argmax(1)
                chances = outputs.float().softmax(1).gather(1, predicted[:, None]).flatten()
                rows = torch.stack([targets.double(), predicted.double(), chances.double()], 1)
                answers[number * batch_size : number * batch_size + len(rows)] = rows
    hits, loss = world.sum(sums).cpu().sum(0).tolist()
    found = predictions(world.sum(answers).cpu()) if keep else None
    return Metrics(hits / len(test), loss / len(test), found)


def predictions(answers: Tensor) -> Predictions:
    """Predictions from rows (n, 3) of class, predicted class and confidence; rows that lack a value are left out."""
    numbers = ((answers[:, 2] > 0) & (answers[:, 0] >= 0)).nonzero().flatten()
    targets, predicted, confidence = answers[numbers].unbind(1)
    return Predictions(numbers, targets.long(), predicted.long(), confidence)


def evaluate_verb(arguments: Sequence[str]) -> int:
    """Print accuracy and loss of a saved model on the test images, in one process. Raises ModelError."""
    top = argparse.ArgumentParser(
        prog="trainer evaluate",
        description="Measure a saved model on the test part of the data that it was trained on, or of the data that "
        "--dataset or --data names.",
    )
    top.add_argument("model", type=Path)
    given, rest = top.parse_known_args(arguments)
    trained = trained_on(given.model)
    config = options.parse([*measured(trained), *rest])
    if config.dataset == "auto" and not config.data:
        read_state(given.model)  # a missing or damaged file is the better reason
        raise ModelError(
            f"the training data of {given.model} is unknown: the file has no description, its folder has no "
            "config.json, and no run below that folder has the same model; name the data with --dataset or --data"
        )
    if config.data and config.network not in networks.NETWORKS:
        trained = {**trained, "network": config.network}
    dataset = datasets.resolve(config)
    _, test = datasets.load(config, dataset)
    network = load(given.model, trained, test)
    print(f"measured on {dataset}: {len(test)} {'validation' if config.validation else 'test'} examples")
    metrics = evaluate(network, test, config.test_batch_size, World(0, 1, torch.device("cpu")))
    print(f"accuracy={metrics.accuracy:.4f}\nloss={metrics.loss:.4f}")
    return 0


def predict_verb(arguments: Sequence[str]) -> int:
    """Print, for each picture, the likeliest class and its probability. Raises ModelError."""
    top = argparse.ArgumentParser(prog="trainer predict", description="Classify pictures with a saved model.")
    top.add_argument("model", type=Path)
    top.add_argument("image", type=Path, nargs="+")
    given = top.parse_args(arguments)
    trained = trained_on(given.model)
    if trained.get("dataset", "digits") not in options.DATASETS:
        raise ModelError(
            f"{given.model} was trained on {trained['dataset']}, and predict reads 28x28 pictures only"
        )
    network = load(given.model, trained).eval()
    try:
        images = torch.stack([read_picture(path) for path in given.image])
    except OSError as error:
        raise ModelError(f"a picture cannot be read: {error}") from error
    with torch.no_grad():
        chances = network(normalize(images)).softmax(1)
    for path, chance in zip(given.image, chances, strict=True):
        print(f"{path}: {int(chance.argmax())} ({float(chance.max()):.4f})")
    return 0


def read_state(path: Path) -> dict[str, Tensor]:
    """The state_dict in a model file. Raises ModelError, also for a flipped bit.

    torch.load does not check the checksums that torch.save writes.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror}") from error
    try:
        whole = _has_its_checksums(content)
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True) if whole else None
    except MemoryError:
        raise
    except Exception:  # torch.load raises half a dozen types for a damaged archive
        whole, state = False, None
    if not whole:
        raise ModelError(
            f"{path} is not a whole state_dict that torch.load(weights_only=True) reads; use another copy"
        )
    if not isinstance(state, dict) or not all(
        isinstance(value, Tensor) or name.endswith("_extra_state") for name, value in state.items()
    ):
        raise ModelError(
            f"{path} is no state_dict; a checkpoint is not a model: use the run's {volume.MODEL}"
        )
    return state


def _has_its_checksums(content: bytes) -> bool:
    file = io.BytesIO(content)
    if not zipfile.is_zipfile(file):  # older files are no archives
        return True
    with zipfile.ZipFile(file) as archive:
        return archive.testzip() is None


def load(path: Path, trained: dict[str, Any], test: Examples | None = None) -> nn.Module:
    """The network of a saved state_dict: the network that `trained` names, else one of ours with the same shapes.

    Raises ModelError, custom.CustomError.
    """
    state = read_state(path)
    try:
        named = str(trained.get("network") or networks.matching(state))
        shape, classes = shape_of(test) if test else ((1, 28, 28), 10)
        if "shape" in trained and "classes" in trained:
            shape, classes = tuple(trained["shape"]), int(trained["classes"])
        network = networks.build(named, seed=0, shape=shape, classes=classes)
        network.load_state_dict(state)
    except (AttributeError, TypeError, ValueError, RuntimeError) as error:
        raise ModelError(f"{path}: {error}") from error
    return network


def shape_of(examples: Examples) -> tuple[tuple[int, ...], int]:
    """Shape of one input and number of classes, 0 if unknown."""
    return tuple(examples.first()[0].shape[1:]), classes_of(examples)


def trained_on(model: Path) -> dict[str, Any]:
    """What is known about a model's training: its own description, else config.json of its run, else nothing.

    An older model holds no description. Then config.json is beside the model, or in a run below the model's folder that
    has the same model.
    """
    try:
        content = model.read_bytes()
        if found := checkpoint.description(content):
            return found
        folders = [model.parent]
        for path in sorted(model.parent.glob(f"runs/*/{volume.MODEL}")):
            folders += [path.parent] if path.read_bytes() == content else []
    except OSError:
        return {}
    for folder in folders:
        try:
            return dict(json.loads((folder / "config.json").read_text()))
        except (OSError, ValueError):
            continue
    return {}


def measured(trained: dict[str, Any]) -> list[str]:
    """Options that repeat the job's measurement. They come before the user's options, which override them."""
    chosen: list[str] = []
    if ":" in str(trained.get("network", "")):
        chosen += ["--network", str(trained["network"])]
    if trained.get("dataset") in options.DATASETS:
        chosen += ["--dataset", str(trained["dataset"])]
    elif trained.get("dataset"):
        chosen += ["--data", str(trained["dataset"])]
    if "seed" in trained:  # a user's data function may split the data by the seed
        chosen += ["--seed", str(trained["seed"])]
    if "test_batch_size" in trained:
        chosen += ["--test-batch-size", str(trained["test_batch_size"])]
    return [*chosen, "--validation"] if trained.get("validation") else chosen

"""Exact test metrics, over one process or many; `trainer evaluate` and `trainer predict`."""

from __future__ import annotations

import argparse
import json
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainer import datasets, networks, options
from trainer.datasets import Part
from trainer.distributed import World
from trainer.inspection import read_picture
from trainer.networks import Network, normalize
from trainer.precision import whole_float32


@dataclass(frozen=True)
class Metrics:
    accuracy: float
    loss: float


def evaluate(network: nn.Module, test: Part, batch_size: int, world: World) -> Metrics:
    """Accuracy and mean cross-entropy of `network` on the whole of `test`, the same on every rank.

    The batches are dealt out whole, and each one's sums keep a place of their own until all are there. So the result
    does not depend, to the last digit, on how many ranks there are.
    """
    network.eval()
    starts = range(0, len(test), batch_size)
    sums = torch.zeros(len(starts), 2, dtype=torch.float64, device=test.images.device)
    for number in range(world.rank, len(starts), world.size):
        batch = slice(starts[number], starts[number] + batch_size)
        labels = test.labels[batch]
        with torch.no_grad(), whole_float32():
            logits = network(normalize(test.images[batch])).float()
        sums[number, 0] = (logits.argmax(1) == labels).sum()
        sums[number, 1] = functional.cross_entropy(logits, labels, reduction="none").double().sum()
    hits, loss = world.sum(sums).cpu().sum(0).tolist()
    return Metrics(hits / len(test), loss / len(test))


class ModelError(Exception):
    """The file is not a model of ours, or not a picture; the message says what it is."""


def evaluate_verb(arguments: Sequence[str]) -> int:
    """Print accuracy and loss of a saved model on the test images, in one process."""
    top = argparse.ArgumentParser(
        prog="trainer evaluate", description="Measure a saved model on the test images."
    )
    top.add_argument("model", type=Path)
    given, rest = top.parse_known_args(arguments)
    config = options.parse([*_trained_on(given.model), *rest])
    network = load(given.model)
    _, test = datasets.load(config, datasets.resolve(config))
    metrics = evaluate(network, test, config.test_batch_size, World(0, 1, torch.device("cpu")))
    print(f"accuracy={metrics.accuracy:.4f}\nloss={metrics.loss:.4f}")
    return 0


def predict_verb(arguments: Sequence[str]) -> int:
    """Print, for each picture, the likeliest class and its probability."""
    top = argparse.ArgumentParser(prog="trainer predict", description="Classify pictures with a saved model.")
    top.add_argument("model", type=Path)
    top.add_argument("image", type=Path, nargs="+")
    given = top.parse_args(arguments)
    network = load(given.model).eval()
    try:
        images = torch.stack([read_picture(path) for path in given.image])
    except OSError as error:
        raise ModelError(f"a picture cannot be read: {error}") from error
    with torch.no_grad():
        chances = network(normalize(images)).softmax(1)
    for path, chance in zip(given.image, chances, strict=True):
        print(f"{path}: {int(chance.argmax())} ({float(chance.max()):.4f})")
    return 0


def load(path: Path) -> Network:
    """The network of a saved state_dict, named by config.json beside it, else by the shapes. Raises ModelError."""
    try:
        state: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror}") from error
    except (RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise ModelError(
            f"{path} is not a whole state_dict that torch.load(weights_only=True) reads"
        ) from error
    named = _config(path).get("network")
    try:
        network = networks.build(
            str(named) if named in networks.NETWORKS else networks.matching(state), seed=0
        )
        network.load_state_dict(state)
    except (AttributeError, TypeError, ValueError, RuntimeError) as error:
        raise ModelError(f"{path}: {error}") from error
    return network


def _config(model: Path) -> dict[str, object]:
    try:
        return dict(json.loads((model.parent / "config.json").read_text()))
    except (OSError, ValueError):
        return {}


def _trained_on(model: Path) -> list[str]:
    """Options of config.json that say what the job measured; they come first, so that the user's own win."""
    config = _config(model)
    chosen = ["--dataset", str(config["dataset"])] if config.get("dataset") in options.DATASETS else []
    if "test_batch_size" in config:
        chosen += ["--test-batch-size", str(config["test_batch_size"])]
    return [*chosen, "--validation"] if config.get("validation") else chosen

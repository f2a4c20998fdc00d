"""`trainer inspect`: what a data set holds, and a picture of some of it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from trainer import datasets, options, picture


def main(arguments: Sequence[str]) -> int:
    """Print shapes, type, mean, standard deviation and class counts of each part; write the samples."""
    top = argparse.ArgumentParser(prog="trainer inspect", description="Describe a data set.")
    top.add_argument(
        "--png", type=Path, default=Path("samples.png"), help="picture to write; default samples.png"
    )
    top.add_argument("--samples", type=options.positive, default=50, help="images in it; default 50")
    given, rest = top.parse_known_args(arguments)
    config = options.parse(rest)
    dataset = datasets.resolve(config)
    train, test = datasets.load(config, dataset)
    print(f"{dataset} from {datasets.folder(config, dataset)}")
    for name, part in (("train", train), ("validation" if config.validation else "test", test)):
        print(describe(name, part.images, part.labels))
    picture.samples(train.images[: given.samples], train.labels[: given.samples]).save(given.png)
    print(f"samples: {given.png}")
    return 0


def describe(name: str, images: Tensor, labels: Tensor) -> str:
    """One line; mean and standard deviation are of pixel values from 0 to 1."""
    shape = "x".join(map(str, images.shape))
    # From the histogram: exact, and without a copy of the images in floats.
    counts = torch.bincount(images.flatten(), minlength=256).double()
    levels = torch.arange(256, dtype=torch.float64) / 255
    mean = float((counts * levels).sum() / counts.sum())
    std = float((counts * (levels - mean) ** 2).sum() / counts.sum()) ** 0.5
    classes = torch.bincount(labels, minlength=10).tolist()
    return f"{name}: {shape} {images.dtype} mean={mean:.4f} std={std:.4f} classes={classes}"

"""`trainer inspect`: describes a data set, and draws some of its images. Also reads pictures for `predict`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch
from PIL import Image, ImageDraw
from torch import Tensor

from trainer import datasets, options

SIDE = 28


def samples(images: Tensor, labels: Tensor, columns: int = 10) -> Image.Image:
    """A sheet of the images (n, 28, 28), each with its label below it."""
    cell_width, cell_height = 2 * SIDE, 2 * SIDE + 14
    rows = -(-len(images) // columns)
    sheet = Image.new("L", (columns * cell_width, rows * cell_height), 255)
    draw = ImageDraw.Draw(sheet)
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        left, top = number % columns * cell_width, number // columns * cell_height
        picture = Image.fromarray(image.numpy()).resize((2 * SIDE, 2 * SIDE), Image.Resampling.NEAREST)
        sheet.paste(picture, (left, top))
        draw.text((left + SIDE - 3, top + 2 * SIDE), str(int(label)), fill=0)
    return sheet


def read_picture(path: Path) -> Tensor:
    """A picture as bytes (28, 28), light strokes on dark ground as in MNIST.

    A picture with a light ground is inverted; a picture of another size is scaled.
    """
    with Image.open(path) as picture:
        grey = picture.convert("L").resize((SIDE, SIDE), Image.Resampling.BILINEAR)
    pixels = torch.frombuffer(bytearray(grey.tobytes()), dtype=torch.uint8).reshape(SIDE, SIDE)
    edge = torch.cat([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]]).float()
    return 255 - pixels if edge.mean() > 127 else pixels


def main(arguments: Sequence[str]) -> int:
    """Print shapes, type, mean, standard deviation and class counts of each part; write the samples."""
    top = argparse.ArgumentParser(prog="trainer inspect", description="Describe a data set.")
    top.add_argument(
        "--png", type=Path, default=Path("samples.png"), help="picture to write; default samples.png"
    )
    top.add_argument(
        "--samples", type=options.positive, default=50, help="number of images in the picture; default 50"
    )
    given, rest = top.parse_known_args(arguments)
    config = options.parse(rest)
    dataset = datasets.resolve(config)
    train, test = datasets.load_images(config, dataset)
    print(f"{dataset} from {datasets.folder(config, dataset)}")
    for name, part in (("train", train), ("validation" if config.validation else "test", test)):
        print(describe(name, part.inputs, part.targets))
    samples(train.inputs[: given.samples], train.targets[: given.samples]).save(given.png)
    print(f"samples: {given.png}")
    return 0


def describe(name: str, images: Tensor, labels: Tensor) -> str:
    """One line about images (n, 28, 28) and labels (n,); mean and standard deviation are of values from 0 to 1."""
    shape = "x".join(map(str, images.shape))
    # From the histogram: exact, without a float copy of the images.
    counts = torch.bincount(images.flatten(), minlength=256).double()
    levels = torch.arange(256, dtype=torch.float64) / 255
    mean = float((counts * levels).sum() / counts.sum())
    std = float((counts * (levels - mean) ** 2).sum() / counts.sum()) ** 0.5
    classes = torch.bincount(labels, minlength=10).tolist()
    return f"{name}: {shape} {images.dtype} mean={mean:.4f} std={std:.4f} classes={classes}"

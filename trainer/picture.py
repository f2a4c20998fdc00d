"""Pictures out of data sets and into them, by way of Pillow."""

from __future__ import annotations

from pathlib import Path

import torch
from PIL import Image, ImageDraw
from torch import Tensor

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


def read(path: Path) -> Tensor:
    """A picture as bytes (28, 28), light strokes on dark ground as in MNIST.

    A picture with a light ground is inverted, one of another size is scaled.
    """
    with Image.open(path) as picture:
        grey = picture.convert("L").resize((SIDE, SIDE), Image.Resampling.BILINEAR)
    pixels = torch.frombuffer(bytearray(grey.tobytes()), dtype=torch.uint8).reshape(SIDE, SIDE)
    edge = torch.cat([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]]).float()
    return 255 - pixels if edge.mean() > 127 else pixels

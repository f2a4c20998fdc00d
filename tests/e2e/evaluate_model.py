"""Evaluate a lenet state_dict anew, knowing nothing of the trainer: run inside the trainer image.

Usage: python3 evaluate_model.py MODEL DATA_DIR. Prints `parameters=<n> accuracy=<hits/images>`. The network is
written out again from its published description, and the images are read from the IDX files or, without them,
from the image's own digits.
"""

import gzip
import sys
from pathlib import Path

import numpy
import torch
from torch import nn


class LeNet(nn.Module):
    """Convolutions 20 and 50 of 5x5, each followed by a 2x2 maximum, then 800 -> 500 -> 10."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 20, 5)
        self.conv2 = nn.Conv2d(20, 50, 5)
        self.fc1 = nn.Linear(800, 500)
        self.fc2 = nn.Linear(500, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = torch.max_pool2d(torch.relu(self.conv2(x)), 2)
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))


def idx(folder: Path, name: str) -> numpy.ndarray:
    plain = folder / name
    raw = plain.read_bytes() if plain.exists() else gzip.decompress((folder / f"{name}.gz").read_bytes())
    dimensions = raw[3]
    shape = [int.from_bytes(raw[4 + 4 * d : 8 + 4 * d], "big") for d in range(dimensions)]
    return numpy.frombuffer(raw, numpy.uint8, offset=4 + 4 * dimensions).reshape(shape).copy()


def main(model: str, data: str) -> None:
    images = torch.from_numpy(idx(Path(data), "t10k-images-idx3-ubyte"))
    labels = torch.from_numpy(idx(Path(data), "t10k-labels-idx1-ubyte"))
    network = LeNet()
    network.load_state_dict(torch.load(model, weights_only=True))
    network.eval()
    with torch.no_grad():
        scaled = (images.unsqueeze(1).float() / 255 - 0.1307) / 0.3081
        hits = sum(
            int((network(scaled[start : start + 1000]).argmax(1) == labels[start : start + 1000]).sum())
            for start in range(0, len(labels), 1000)
        )
    parameters = sum(parameter.numel() for parameter in network.parameters())
    print(f"parameters={parameters} accuracy={hits / len(labels)}")


if __name__ == "__main__":
    main(*sys.argv[1:])

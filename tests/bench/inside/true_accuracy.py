"""Accuracy of a lenet file on the whole test set, knowing nothing of the trainer.

Usage: true_accuracy.py MODEL DATA MEAN STD
"""

import gzip
import sys
from pathlib import Path

import numpy
import torch
from torch.nn import functional


def main(model: str, data: str, mean: float, std: float) -> float:
    state = torch.load(model, weights_only=True)
    state = {name.removeprefix("module."): value for name, value in state.items()}  # DDP's own prefix
    pixels = gzip.decompress((Path(data) / "t10k-images-idx3-ubyte.gz").read_bytes())[16:]
    labels = gzip.decompress((Path(data) / "t10k-labels-idx1-ubyte.gz").read_bytes())[8:]
    x = torch.from_numpy(numpy.frombuffer(pixels, numpy.uint8).reshape(-1, 1, 28, 28).copy()).float() / 255
    with torch.no_grad():
        x = functional.conv2d((x - mean) / std, state["conv1.weight"], state["conv1.bias"])
        x = functional.conv2d(functional.max_pool2d(x.relu(), 2), state["conv2.weight"], state["conv2.bias"])
        x = functional.max_pool2d(x.relu(), 2).flatten(1)
        x = functional.linear(x, state["fc1.weight"], state["fc1.bias"]).relu()
        guesses = functional.linear(x, state["fc2.weight"], state["fc2.bias"]).argmax(1)
    return float((guesses == torch.tensor(list(labels))).float().mean())


if __name__ == "__main__":
    print(main(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])))

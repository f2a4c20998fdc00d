import csv
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset


def read(files):
    rows = []
    for file in files:
        with open(file, newline="") as lines:
            rows += list(csv.reader(lines))[1:]
    features = np.array([row[:-1] for row in rows], dtype=np.float32)
    return features, [row[-1] for row in rows]


def loaders(folder, batch_size):
    """The training and validation batches of a folder with train-*.csv and valid.csv, and the species."""
    files = sorted(Path(folder).glob("train-*.csv"))
    if not files:
        raise SystemExit(f"no train-*.csv in {folder}")
    features, names = read(files)
    species = sorted(set(names))
    mean, std = features.mean(0), features.std(0)

    def dataset(features, names):
        labels = torch.tensor([species.index(name) for name in names])
        return TensorDataset(torch.from_numpy((features - mean) / std), labels)

    training = DataLoader(dataset(features, names), batch_size=batch_size, shuffle=True)
    validation = DataLoader(dataset(*read([Path(folder, "valid.csv")])), batch_size=500)
    return training, validation, species

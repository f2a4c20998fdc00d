"""python3 -m flowers --data FOLDER --output FOLDER"""

import argparse
from pathlib import Path

import torch
from torch import nn

from flowers.data import KINDS, read
from flowers.engine import Trainer

parser = argparse.ArgumentParser()
parser.add_argument("--data", type=Path, default=Path("data"))
parser.add_argument("--output", type=Path, default=Path("outputs"))
parser.add_argument("--epochs", type=int, default=10)
options = parser.parse_args()

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, len(KINDS)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
trainer = Trainer(model, optimizer, options.output)
accuracy = trainer.fit(read(options.data / "train.csv"), read(options.data / "test.csv"), options.epochs)
print(f"accuracy={accuracy:.4f}")

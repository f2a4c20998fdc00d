"""Three noisy spiral arms in the plane, and a small network that tells them apart."""
import numpy as np
import torch
from torch import nn

ARMS = 3


def make_spirals(count, seed, noise=0.3):
    rng = np.random.default_rng(seed)
    arm = rng.integers(ARMS, size=count)
    radius = rng.uniform(0.1, 1.0, size=count)
    angle = 4.0 * radius + 2 * np.pi * arm / ARMS + rng.normal(0.0, noise, size=count)
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return torch.from_numpy(points.astype(np.float32)), torch.from_numpy(arm.astype(np.int64))


class SpiralNet(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(2, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, ARMS)
        )

    def forward(self, points):
        return self.layers(points)

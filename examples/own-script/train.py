"""DistributedDataParallel as PyTorch's own tutorials write it. It knows nothing of this project.

The training-operator sets MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE, which is all that init_process_group needs.
A line `accuracy=...` or `loss=...` becomes an output of the stack.
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def spirals(count: int, seed: int) -> TensorDataset:
    """Points (count, 2) on three interleaved spirals, and the number of each point's spiral."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (count,), generator=random)
    radius = torch.rand(count, generator=random)
    angle = 4 * radius + labels * 2.0944 + 0.15 * torch.randn(count, generator=random)
    return TensorDataset(torch.stack([radius * angle.sin(), radius * angle.cos()], dim=1), labels)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--save", help="file for the trained weights")
    options = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))
    parallel = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(parallel.parameters(), lr=0.01)
    examples, (points, labels) = spirals(6000, seed=1), spirals(2000, seed=2).tensors
    sampler = DistributedSampler(examples)
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        for inputs, targets in DataLoader(examples, batch_size=64, sampler=sampler):
            optimizer.zero_grad()
            nn.functional.cross_entropy(parallel(inputs), targets).backward()
            optimizer.step()
        if rank == 0:
            with torch.no_grad():
                outputs = model(points)
            print(f"accuracy={(outputs.argmax(1) == labels).float().mean():.4f}", flush=True)
            print(f"loss={nn.functional.cross_entropy(outputs, labels):.4f}", flush=True)
    if rank == 0 and options.save:
        os.makedirs(os.path.dirname(options.save) or ".", exist_ok=True)
        torch.save(model.state_dict(), options.save)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

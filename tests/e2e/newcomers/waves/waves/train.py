"""torchrun --nproc-per-node 2 -m waves.train --output out: says how many periods a noisy wave has."""

import argparse
import logging
import os
from pathlib import Path

import torch
import torch.distributed as dist
from einops import rearrange
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

log = logging.getLogger("waves")
PERIODS = 5


def waves(count, seed):
    random = torch.Generator().manual_seed(seed)
    labels = torch.randint(PERIODS, (count,), generator=random)
    time = torch.linspace(0, 2 * torch.pi, 64)
    phase = 2 * torch.pi * torch.rand(count, 1, generator=random)
    clean = torch.sin((labels[:, None] + 1) * time + phase)
    return TensorDataset(clean + 0.3 * torch.randn(count, 64, generator=random), labels)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Sequential(
            nn.Conv1d(1, 16, 9, stride=2), nn.ReLU(), nn.Conv1d(16, 16, 9), nn.ReLU()
        )
        self.head = nn.Linear(16 * 20, PERIODS)

    def forward(self, signal):
        found = self.convolution(rearrange(signal, "batch time -> batch 1 time"))
        return self.head(rearrange(found, "batch channel time -> batch (channel time)"))


def evaluate(model, loader, device):
    """Over all processes."""
    found = torch.zeros(2, device=device)
    with torch.no_grad():
        for inputs, labels in loader:
            hits = model(inputs.to(device)).argmax(1) == labels.to(device)
            found += torch.tensor([hits.sum(), len(labels)], device=device)
    dist.all_reduce(found)
    return (found[0] / found[1]).item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=4)
    options = parser.parse_args()
    local_rank = int(os.environ["LOCAL_RANK"])
    on_gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if on_gpu else "gloo")
    device = torch.device("cuda", local_rank) if on_gpu else torch.device("cpu")
    rank = dist.get_rank()
    logging.basicConfig(
        level=logging.INFO if rank == 0 else logging.WARNING, format="%(asctime)s %(message)s"
    )
    log.info("world_size=%d", dist.get_world_size())

    torch.manual_seed(0)
    model = DistributedDataParallel(Net().to(device))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    last, first = options.output / "last.pt", 0
    if last.exists():
        state = torch.load(last, map_location=device)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["epoch"]
        log.info("goes on after epoch %d", first)

    data, tests = waves(8000, seed=1), waves(2000, seed=2)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=32, sampler=sampler)
    testing = DataLoader(tests, batch_size=250, sampler=DistributedSampler(tests, shuffle=False))
    for epoch in range(first, options.epochs):
        sampler.set_epoch(epoch)
        for step, (inputs, labels) in enumerate(loader):
            loss = cross_entropy(model(inputs.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 20 == 0:
                log.info("epoch %d step %d: train_loss=%.4f", epoch + 1, step, loss.item())
        accuracy = evaluate(model, testing, device)
        if rank == 0:
            print(f"accuracy={accuracy:.4f}")
            options.output.mkdir(parents=True, exist_ok=True)
            state = {
                "model": model.module.state_dict(),
                "optimizer": optimizer.state_dict(),
                "epoch": epoch + 1,
            }
            torch.save(state, last.with_suffix(".part"))
            last.with_suffix(".part").replace(last)
    if rank == 0:
        torch.save(model.module.state_dict(), options.output / "waves.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

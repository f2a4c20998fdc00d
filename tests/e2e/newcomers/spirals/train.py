"""torchrun --nproc-per-node=4 train.py --output output

Goes on from output/checkpoint.pt where an earlier start has left one.
"""
import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from spirals import SpiralNet, make_spirals


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path, default=Path("output"))
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=64, help="of each process")
    parser.add_argument("--lr", type=float, default=0.005)
    parser.add_argument("--seed", type=int, default=7)
    return parser.parse_args()


@torch.no_grad()
def evaluate(model, points, labels):
    model.eval()
    logits = model(points)
    model.train()
    return nn.functional.cross_entropy(logits, labels).item(), (logits.argmax(1) == labels).float().mean().item()


def save(content, path):
    new = path.with_suffix(".tmp")
    torch.save(content, new)
    os.replace(new, path)


def main():
    args = options()
    local_rank = int(os.environ["LOCAL_RANK"])
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo", init_method="env://")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", local_rank) if cuda else torch.device("cpu")
    if rank == 0:
        args.output.mkdir(parents=True, exist_ok=True)
        print(f"{world} processes, {os.environ['LOCAL_WORLD_SIZE']} on this node, device {device}")

    torch.manual_seed(args.seed)
    train = TensorDataset(*make_spirals(6000, args.seed))
    test = [part.to(device) for part in make_spirals(2000, args.seed + 1)]
    sampler = DistributedSampler(train, shuffle=True, seed=args.seed)
    loader = DataLoader(train, batch_size=args.batch_size, sampler=sampler)

    model = SpiralNet().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    checkpoint, first = args.output / "checkpoint.pt", 0
    if checkpoint.exists():
        state = torch.load(checkpoint, map_location=device)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["epoch"]
        if rank == 0:
            print(f"going on after epoch {first}")
    dist.barrier()  # nobody overwrites the checkpoint while another still reads it
    ddp = DistributedDataParallel(model, device_ids=[local_rank] if cuda else None)

    for epoch in range(first + 1, args.epochs + 1):
        started, total = time.time(), torch.zeros(1, device=device)
        sampler.set_epoch(epoch)
        for points, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(ddp(points.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            total += loss.detach()
        dist.all_reduce(total)
        if rank == 0:
            mean = total.item() / len(loader) / world
            seconds = time.time() - started
            print(f"epoch {epoch}: train_loss={mean:.4f} test_acc={evaluate(model, *test)[1]:.4f} seconds={seconds:.1f}")
            save({"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, checkpoint)

    if rank == 0:
        loss, accuracy = evaluate(model, *test)
        print(f"loss={loss:.4f}")
        print(f"accuracy={accuracy:.4f}")
        save(model.state_dict(), args.output / "spirals.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

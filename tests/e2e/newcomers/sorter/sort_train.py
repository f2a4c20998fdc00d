"""Teach a small transformer to sort digits. Usage: python sort_train.py [--epochs N] [--lr X] [--seed N]"""
import argparse
import os
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

LENGTH, DIGITS, STEPS, BATCH = 6, 8, 150, 128
WEIGHTS = "digit_sorter.pth"


class Sorter(nn.Module):
    def __init__(self, dim=48, heads=4, layers=2):
        super().__init__()
        self.digit = nn.Embedding(DIGITS, dim)
        self.place = nn.Parameter(torch.randn(LENGTH, dim) * 0.1)
        layer = nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(dim), enable_nested_tensor=False)
        self.head = nn.Linear(dim, DIGITS)

    def forward(self, x):
        return self.head(self.body(self.digit(x) + self.place))


def sequences(rng, count):
    x = rng.integers(0, DIGITS, size=(count, LENGTH))
    return torch.from_numpy(x), torch.from_numpy(np.sort(x, axis=1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=1)
    opts = parser.parse_args()

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(opts.seed)
    rng = np.random.default_rng(opts.seed)
    test_x, test_y = (t.to(device) for t in sequences(np.random.default_rng(12345), 2000))
    net = Sorter().to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=opts.lr)
    criterion = nn.CrossEntropyLoss()
    print(f"*** sorting {LENGTH} digits on {device}, {sum(p.numel() for p in net.parameters())} weights")
    started = time.time()
    for epoch in range(1, opts.epochs + 1):
        net.train()
        total = 0.0
        for _ in range(STEPS):
            x, y = (t.to(device) for t in sequences(rng, BATCH))
            loss = criterion(net(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        net.eval()
        with torch.no_grad():
            right = net(test_x).argmax(-1) == test_y
        tokens, whole = right.float().mean().item(), right.all(1).float().mean().item()
        print(f"[{epoch:2d}/{opts.epochs}] loss {total / STEPS:.4f} | digits right {tokens:6.1%}"
              f" | whole rows {whole:6.1%} | {time.time() - started:5.1f}s")
        print(f"loss={total / STEPS:.4f}")
        print(f"accuracy={tokens:.4f}")
        print(f"epoch {epoch}: whole_rows={whole:.4f}")
        if tokens >= 0.995:
            print("good enough, stopping")
            break
    run = Path(os.environ["TRAINER_MODEL_DIR"], "runs", os.environ["TRAINER_RUN"])
    run.mkdir(parents=True, exist_ok=True)
    torch.save(net.state_dict(), run / WEIGHTS)
    print(f"*** saved {run / WEIGHTS}")


if __name__ == "__main__":
    main()

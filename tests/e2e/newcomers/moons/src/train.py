"""Tells two half moons apart, on one GPU or on the processor."""

import os
import time
from pathlib import Path

import numpy as np
import torch
import yaml
from model import Net
from torch.nn.functional import cross_entropy


def moons(count, noise, rng):
    angle = rng.uniform(0, np.pi, count)
    label = rng.integers(0, 2, count)
    x = np.where(label, 1 - np.cos(angle), np.cos(angle))
    y = np.where(label, 0.5 - np.sin(angle), np.sin(angle))
    points = np.stack([x, y], 1) + rng.normal(0, noise, (count, 2))
    return torch.tensor(points, dtype=torch.float32), torch.tensor(label)


def measure(model, points, labels):
    with torch.no_grad():
        outputs = model(points)
    return (outputs.argmax(1) == labels).float().mean().item(), cross_entropy(outputs, labels).item()


def main():
    config = yaml.safe_load(Path("config.yaml").read_text())
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    points, labels = (each.to(device) for each in moons(4000, config["noise"], rng))
    test = [each.to(device) for each in moons(1000, config["noise"], rng)]
    model = Net().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"])
    begin = time.time()
    for epoch in range(1, config["epochs"] + 1):
        order = torch.randperm(len(points), device=device)
        for batch in order.split(config["batch"]):
            loss = cross_entropy(model(points[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        val_accuracy, val_loss = measure(model, *test)
        print(f"epoch {epoch}: val_accuracy={val_accuracy:.4f}, val_loss={val_loss:.4f}")
    accuracy, loss = measure(model, *test)
    print(f"trained for {time.time() - begin:.1f} s on {device}")
    print(f"accuracy={accuracy:.4f}")
    print(f"loss={loss:.4f}")

    folder = Path(os.environ.get("TRAINER_MODEL_DIR", "."), "runs", os.environ.get("TRAINER_RUN", "here"))
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), folder / "moons.pt")


if __name__ == "__main__":
    main()

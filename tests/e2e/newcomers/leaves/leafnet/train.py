import argparse

import torch
from torch import nn

from leafnet.data import loaders
from leafnet.trainer import Checkpoint, PrintMetrics, Trainer


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="folder with train-*.csv and valid.csv")
    parser.add_argument("--output", required=True, help="folder for checkpoints and the final model")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint in --output")
    args = parser.parse_args()

    torch.manual_seed(0)
    training, validation, species = loaders(args.data, args.batch_size)
    print(f"{len(training.dataset)} leaves of {len(species)} species: {', '.join(species)}")
    model = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, len(species)))
    checkpoint = Checkpoint(args.output)
    trainer = Trainer(model, args.lr, [PrintMetrics(), checkpoint])
    if args.resume:
        checkpoint.resume(trainer)
    trainer.fit(training, validation, args.epochs)
    print(f"accuracy={trainer.best:.4f}")


if __name__ == "__main__":
    main()

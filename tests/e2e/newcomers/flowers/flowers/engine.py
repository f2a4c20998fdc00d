"""A Trainer of one's own: callbacks, checkpoints, early stopping, progress by tqdm."""

import torch
from torch import nn
from torch.utils.data import DataLoader
from tqdm import tqdm


class Trainer:
    def __init__(self, model, optimizer, folder, patience=3):
        self.model, self.optimizer, self.folder, self.patience = model, optimizer, folder, patience
        self.epoch, self.best, self.waited = 0, 0.0, 0
        folder.mkdir(parents=True, exist_ok=True)

    def fit(self, training, validation, epochs):
        self.restore()
        batches = DataLoader(training, batch_size=32, shuffle=True, num_workers=2)
        while self.epoch < epochs and self.waited < self.patience:
            self.epoch += 1
            bar = tqdm(batches, desc=f"epoch {self.epoch}")
            for inputs, targets in bar:
                loss = nn.functional.cross_entropy(self.model(inputs), targets)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                bar.set_postfix(train_loss=f"{loss.item():.3f}")
            self.validated(self.accuracy(validation))
        self.model.load_state_dict(torch.load(self.folder / "best.pt"))
        return self.accuracy(validation)

    def accuracy(self, data):
        inputs, targets = data.tensors
        with torch.no_grad():
            return (self.model(inputs).argmax(1) == targets).float().mean().item()

    def validated(self, accuracy):
        tqdm.write(f"epoch {self.epoch}: val_acc={accuracy:.4f}")
        self.waited = 0 if accuracy > self.best else self.waited + 1
        if accuracy > self.best:
            self.best = accuracy
            torch.save(self.model.state_dict(), self.folder / "best.pt")
        self.save()

    def save(self):
        state = {
            "epoch": self.epoch,
            "best": self.best,
            "waited": self.waited,
            "model": self.model.state_dict(),
        }
        torch.save(state, self.folder / "checkpoint.part")
        (self.folder / "checkpoint.part").replace(self.folder / "checkpoint.pt")

    def restore(self):
        file = self.folder / "checkpoint.pt"
        if file.exists():
            state = torch.load(file)
            self.epoch, self.best, self.waited = state["epoch"], state["best"], state["waited"]
            self.model.load_state_dict(state["model"])

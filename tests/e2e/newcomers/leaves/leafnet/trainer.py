from pathlib import Path

import torch
from torch.nn.functional import cross_entropy
from tqdm import tqdm


class Callback:
    def on_epoch_end(self, trainer, metrics):
        pass

    def on_fit_end(self, trainer, metrics):
        pass


class PrintMetrics(Callback):
    def on_epoch_end(self, trainer, metrics):
        print(f"epoch {trainer.epoch}: " + " ".join(f"{name}={value:.4f}" for name, value in metrics.items()))


class Checkpoint(Callback):
    """Keep the last and the best checkpoint, and the weights of the best at the end."""

    def __init__(self, output):
        self.output = Path(output)
        (self.output / "checkpoints").mkdir(parents=True, exist_ok=True)

    def path(self, name):
        return self.output / "checkpoints" / f"{name}.pt"

    def save(self, trainer, name):
        new = self.path(name).with_suffix(".tmp")
        torch.save(trainer.state_dict(), new)
        new.rename(self.path(name))

    def resume(self, trainer):
        if self.path("last").exists():
            trainer.load_state_dict(torch.load(self.path("last")))
            print(f"resumed after epoch {trainer.epoch}")

    def on_epoch_end(self, trainer, metrics):
        if metrics["val_acc"] > trainer.best:
            trainer.best = metrics["val_acc"]
            self.save(trainer, "best")
        self.save(trainer, "last")

    def on_fit_end(self, trainer, metrics):
        torch.save(torch.load(self.path("best"))["model"], self.output / "leafnet.pt")


class Trainer:
    def __init__(self, model, lr, callbacks=()):
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = model.to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr)
        self.callbacks, self.epoch, self.best = callbacks, 0, 0.0

    def state_dict(self):
        return {
            "epoch": self.epoch,
            "best": self.best,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }

    def load_state_dict(self, state):
        self.epoch, self.best = state["epoch"], state["best"]
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])

    def fit(self, training, validation, epochs):
        metrics = self.validate(validation)
        while self.epoch < epochs:
            self.epoch += 1
            self.model.train()
            bar = tqdm(training, desc=f"epoch {self.epoch}/{epochs}")
            for features, labels in bar:
                loss = cross_entropy(self.model(features.to(self.device)), labels.to(self.device))
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                bar.set_postfix(loss=f"{loss.item():.4f}")
            metrics = self.validate(validation)
            for callback in self.callbacks:
                callback.on_epoch_end(self, metrics)
        for callback in self.callbacks:
            callback.on_fit_end(self, metrics)
        return metrics

    @torch.no_grad()
    def validate(self, validation):
        self.model.eval()
        loss, hits, count = 0.0, 0, 0
        for features, labels in tqdm(validation, desc="validate", leave=False):
            scores, labels = self.model(features.to(self.device)), labels.to(self.device)
            loss += cross_entropy(scores, labels, reduction="sum").item()
            hits += (scores.argmax(1) == labels).sum().item()
            count += len(labels)
        return {"val_loss": loss / count, "val_acc": hits / count}

"""Training, top to bottom: meet the other ranks, load, resume, train epoch by epoch, save.

Every rank holds the same weights and sees its slice of each global batch. Rank 0 logs and saves.
"""

from __future__ import annotations

import signal
import time
from pathlib import Path
from types import FrameType

import torch
from torch import Tensor
from torch.nn import functional

from trainer import checkpoint, datasets, distributed, networks, precision, volume
from trainer.checkpoint import Progress
from trainer.distributed import World
from trainer.evaluation import Metrics, evaluate
from trainer.journal import Journal
from trainer.optimizers import OPTIMIZERS, Flat
from trainer.options import Config
from trainer.recipes import learning_rate

TERMINATED = 128 + signal.SIGTERM  # an exit code that the operator's ExitCode policy restarts


class Training:
    """One run on one rank."""

    def __init__(self, config: Config, world: World) -> None:
        self.config, self.world = config, world
        dataset = world.from_rank_zero(lambda: datasets.resolve(config))
        train, test = datasets.load(config, dataset)
        self.train, self.test = train.to(world.device), test.to(world.device)
        self.dtype = precision.choose(config.settings, world)
        self.forward_pass = precision.forward_pass(self.dtype, world.device)
        self.training_s, began = 0.0, time.perf_counter()  # the clock starts with the data in memory
        self.network = networks.build(config.network, config.seed).to(world.device)
        self.flat = Flat(self.network)
        self.optimizer = OPTIMIZERS[config.settings.optimizer](config.settings, self.flat.values)
        self.batch = config.global_batch(world.size)
        self.progress = Progress()
        self.stopping = False
        self.folder = volume.open_run(config.model_dir, config.run) if world.leads else None
        self.outcome = {**config.outcome(), "dataset": dataset}
        self.journal = Journal(self.folder, config.log_dir, world.leads)
        self.training_s = time.perf_counter() - began

    def run(self) -> None:
        """Train what is left to train, then save. Exits with TERMINATED after a SIGTERM."""
        signal.signal(signal.SIGTERM, self.stop)
        self.resume()
        self.journal.begin(self.described(), self.progress.step)
        if self.config.settings.bf16 and self.dtype is torch.float32:
            self.journal.say("not every replica's processor multiplies bfloat16: computing in float32")
        metrics = None
        try:
            while self.progress.epoch <= self.config.epochs:
                self.epoch()
                metrics = self.measure()
                self.journal.epoch(self.progress.epoch, self.progress.step, metrics, self.training_s)
                self.progress = Progress(self.progress.epoch + 1, 0, self.progress.step)
                self.save_checkpoint()
        except distributed.PeerLostError:
            self.save_checkpoint()  # of the last whole step: nothing but the step under way is lost
            raise
        metrics = metrics or self.measure()
        if self.world.leads:
            self.finish(metrics)
        self.world.wait_for_leader()

    def stop(self, number: int, frame: FrameType | None) -> None:
        """On SIGTERM: the step under way is finished first."""
        self.stopping = True

    def resume(self) -> None:
        """Take the state of rank 0's checkpoint, if there is one, on every rank."""
        folder = self.folder
        state = self.world.from_rank_zero(lambda: checkpoint.load(folder, self.outcome) if folder else None)
        if state is None:
            return
        self.progress = Progress(**state["progress"])
        self.flat.values.copy_(state["model"])
        for slot, values in self.optimizer.state.items():
            values.copy_(state["optimizer"][slot])
        self.journal.say(f"resumed at epoch {self.progress.epoch}, image {self.progress.images}")

    def epoch(self) -> None:
        """Train on the images that this epoch has left, in an order that depends on seed and epoch alone."""
        began = time.perf_counter()
        self.network.train()
        epoch, total = self.progress.epoch, len(self.train)
        order = torch.randperm(total, generator=generator(self.config.seed, epoch)).to(self.world.device)
        logged = self.progress.images
        while (done := self.progress.images) < total:
            if self.stopping:
                self.save_checkpoint()
                raise SystemExit(TERMINATED)
            chosen = order[done : done + self.batch]
            lr = learning_rate(self.config.settings, epoch - 1 + done / total, self.config.epochs)
            self.step(chosen, lr)
            step = self.progress.step
            self.progress = Progress(epoch, done + len(chosen), step + 1)
            if step % self.config.log_interval == 0:
                seen, logged = self.progress.images - logged, self.progress.images
                self.journal.progress(epoch, step, done, total, self.flat.loss.item(), lr, seen)
        if self.world.device.type == "cuda":
            torch.cuda.synchronize()
        self.training_s += time.perf_counter() - began

    def step(self, chosen: Tensor, lr: float) -> None:
        """One optimizer step on the images `chosen` for all ranks; the last global batch may be uneven, even empty.

        Raises distributed.PeerLostError, with the weights as they were before the step.
        """
        mine = chosen.tensor_split(self.world.size)[self.world.rank]
        images, labels = self.train.images[mine], self.train.labels[mine]
        if self.network.random:
            torch.manual_seed(
                seed(self.config.seed, self.progress.epoch, self.progress.step, self.world.rank)
            )
        smoothing = self.config.settings.label_smoothing
        self.flat.buffer.zero_()
        with self.forward_pass:
            logits = self.network(networks.normalize(images))
        loss = functional.cross_entropy(logits.float(), labels, reduction="sum", label_smoothing=smoothing)
        loss = loss / len(chosen)
        loss.backward()
        self.flat.loss.copy_(loss.detach())
        self.world.sum(self.flat.buffer)
        self.optimizer.step(self.flat.values, self.flat.gradients, lr, self.progress.step)

    def measure(self) -> Metrics:
        return evaluate(self.network, self.test, self.config.test_batch_size, self.world)

    def save_checkpoint(self) -> None:
        if self.folder:
            checkpoint.save(self.folder, self.progress, self.flat.values, self.optimizer.state, self.outcome)

    def finish(self, metrics: Metrics) -> None:
        """Put the model where the job's user looks for it, and report. The run's own copy says that it has finished."""
        state = {
            name: value.detach().cpu().clone().contiguous()
            for name, value in self.network.state_dict().items()
        }
        model = checkpoint.dump(state)
        if self.folder:
            volume.write(self.config.model_dir / volume.MODEL, model)
        elif self.config.save_model:
            volume.write(Path(volume.MODEL), model)
        else:
            self.journal.say(f"{self.config.model_dir} cannot be written: the model is not saved")
        self.journal.end(self.described(), metrics)
        if self.folder:
            volume.write(self.folder / volume.MODEL, model)

    def described(self) -> dict[str, object]:
        """config.json: what the outcome depends on, then where it was computed."""
        return {
            **self.outcome,
            "global_batch": self.batch,
            "world_size": self.world.size,
            "threads": torch.get_num_threads(),
            "precision": str(self.dtype).removeprefix("torch."),
            "test_batch_size": self.config.test_batch_size,
            "device": torch.cuda.get_device_name(self.world.device)
            if self.world.device.type == "cuda"
            else "cpu",
            "torch": torch.__version__,
        }


def seed(*key: int) -> int:
    """A seed that depends on `key` alone."""
    mixed = 0
    for part in key:
        mixed = (mixed * 1_000_003 + part + 1) % (1 << 62)
    return mixed


def generator(*key: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed(*key))


def main(config: Config) -> None:
    """Train as `config` says, as one rank of the job."""
    Training(config, distributed.join(config)).run()

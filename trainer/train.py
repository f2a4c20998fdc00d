"""Training, top to bottom: meet the other ranks, load, agree, resume, train epoch by epoch, measure, save.

    python3 -m trainer --dataset mnist --data-dir FOLDER --model-dir models                 one rank: lenet, one epoch
    python3 -m trainer --recipe fast --dataset mnist --data-dir FOLDER --model-dir models   0.99 in one epoch
    python3 -m trainer --recipe fast --dataset mnist --data-dir FOLDER --profile            where a step spends its time

The package `trainer` needs torch, and no other package of this repository. On MNIST's test images, recipe `fast`
reaches 0.9913 in 1.11 s of training: medians of 10 seeds, two cores of an Intel Xeon that multiply bfloat16,
torch 2.6.0. Recipe `published-sgd` reaches 0.9649. docs/benchmarks.md has the figures of every recipe and network, and
says how they were measured.

Every rank holds the same weights and trains on its share of each global batch. Rank 0 logs and saves.
"""

from __future__ import annotations

import math
import platform
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import torch
from torch import nn

from trainer import (
    checkpoint,
    compatibility,
    datasets,
    distributed,
    evaluation,
    journal,
    networks,
    optimizers,
    precision,
    rendezvous,
    report,
    retention,
    volume,
)
from trainer.checkpoint import CheckpointError, Progress
from trainer.custom import Objective
from trainer.distributed import World
from trainer.draws import seed_all, seed_of
from trainer.evaluation import Metrics
from trainer.examples import Share
from trainer.exchange import Exchange, numbers_of
from trainer.journal import Journal, Profile
from trainer.launch import ExitStatus, Termination
from trainer.options import Config
from trainer.recipes import RECIPES

SLACK_BYTES = 1 << 20  # for log lines, events and the report


class DivergedError(Exception):
    """Loss, accuracy or weights are not finite; the message names the epoch and the step."""


class Training:
    """One run on one rank."""

    def __init__(self, config: Config, world: World, termination: Termination) -> None:
        self.config, self.world, self.termination = config, world, termination
        dataset = world.from_rank_zero(lambda: datasets.resolve(config))
        train, test = datasets.load(config, dataset)
        self.train, self.test = train.to(world.device), test.to(world.device)
        self.dtype = precision.choose(config.settings, world)
        self.forward_pass = precision.forward_pass(self.dtype, world.device)
        self.training_s, began = 0.0, time.perf_counter()  # training time begins when the data is in memory
        self.shape, self.classes = evaluation.shape_of(self.train)
        self.network = networks.build(config.network, config.seed, self.shape, self.classes).to(world.device)
        self.objective = Objective(self.network, config.settings.label_smoothing)
        self.batch = config.global_batch(world.size)
        compatibility.make_lazy_layers(self.network, self.train, config)
        self.take_first_weights()
        self.exchange = Exchange(self.network, world)
        self.parameters = self.exchange.parameters
        self.optimizer = optimizers.build(config.settings, self.parameters)
        self.learning_rate = optimizers.schedule(config.settings, config.epochs)
        self.classifies = compatibility.check(
            self.network, self.train, self.test, config, world, self.forward_pass
        )
        self.progress, self.first_numbers = Progress(), numbers_of(self.network)
        self.outcome = {**config.outcome(), "dataset": dataset}
        self.agree()
        machine = {**self.machine(), "threads": world.threads[world.rank], "processor": processor()}
        del machine["replicas"]
        self.first_examples = compatibility.FirstExamples(
            self.network, self.test, config, world, str(machine)
        )
        self.first_examples.agree("before it is trained")
        self.folder = world.from_rank_zero(self.open_folder)
        self.folder = self.folder if world.leads else None
        self.journal = Journal(self.folder, config.log_dir, world.leads)
        self.profile = Profile(self.folder) if config.profile and world.leads else None
        self.writer, self.saved_at = checkpoint.Writer(), time.monotonic()
        self.training_s = time.perf_counter() - began

    def take_first_weights(self) -> None:
        """With --from, begin with the weights of that model, which rank 0 reads. Raises evaluation.ModelError."""
        path = self.config.start_from
        if path is None:
            return
        state = self.world.from_rank_zero(lambda: evaluation.read_state(path))
        try:
            self.network.load_state_dict(state)
        except RuntimeError as error:
            raise evaluation.ModelError(
                f"{path} is no model of --network {self.config.network}: {error}"
            ) from error

    def agree(self) -> None:
        """Raises SetupError, naming rank and key, unless all ranks begin with the same weights and the same data."""
        facts = {
            "train": self.train.fingerprint(),
            "test": self.test.fingerprint(),
            "first weights": checkpoint.digest(self.network.state_dict())[:12],
        }
        distributed.agree(
            self.world.gather(facts),
            "data or first weights",
            "start all replicas with the same options and data",
        )
        self.data = {"train_data": facts["train"], "test_data": facts["test"]}

    def open_folder(self) -> Path | None:
        """The run's folder; None without a volume. Raises VolumeError if it has too little room for the run's files.

        The room of an earlier start's files counts, because new files replace them. One more checkpoint and one more
        model need room, because a new file is first written beside the old one.
        """
        folder = volume.open_run(self.config.model_dir, self.config.run, self.config.volume)
        if folder:
            saved, model = checkpoint.size(self.state()), checkpoint.size(self.network.state_dict())
            saved = max(saved, volume.size(folder / checkpoint.NAME))  # torch's optimizers have no state yet
            sizes = {
                folder / checkpoint.NAME: saved,
                folder / checkpoint.PREVIOUS: saved,
                folder / volume.BEST: model,
                folder / volume.MODEL: model,
                self.config.model_dir / volume.MODEL: model,
            }
            missing = sum(max(size - volume.size(path), 0) for path, size in sizes.items())
            volume.reserve(folder, missing + saved + model + SLACK_BYTES)
        elif self.config.save_model or self.config.profile:  # they go into the working directory, at the end
            needed = checkpoint.size(self.network.state_dict()) + SLACK_BYTES
            try:
                volume.reserve(Path.cwd(), needed)
            except volume.VolumeError as error:
                raise volume.VolumeError(
                    f"the model or the profile goes to the working directory: {error}; or name another folder with "
                    "--model-dir"
                ) from error
        return folder

    def run(self) -> None:
        """Train the remaining epochs, then save. Exits with TERMINATED after a SIGTERM."""
        self.termination.training = True
        self.resume()
        self.journal.begin(self.described(), self.progress.step, self.progress.epoch)
        if self.world.leads and not self.folder and not self.config.save_model:
            self.journal.say(f"{self.config.model_dir} cannot be written: the model is not saved")
        if self.config.settings.bf16 and self.dtype is torch.float32:
            self.journal.say("not every replica's processor multiplies bfloat16: computing in float32")
        asked_for = self.config.settings.label_smoothing != RECIPES[self.config.recipe].label_smoothing
        if asked_for and self.objective.has_own_loss and self.world.leads:
            self.journal.warn(
                f"--label-smoothing has no effect: --network {self.config.network} has its own loss"
            )
        if (
            any(type(each).__name__ == "OptimizedModule" for each in self.network.modules())
            and self.world.leads
        ):
            self.journal.warn("the trainer ignores torch.compile: --network trains uncompiled")
        own = {"--data": self.train, "--network": self.first_examples}
        for option in [name for name, each in own.items() if getattr(each, "draws_unseeded", False)]:
            if self.world.leads:
                self.journal.warn(
                    f"{option} draws from its own generator: a resumed run will draw other numbers; draw with "
                    "torch's, NumPy's or Python's functions, which the trainer seeds"
                )
        metrics = None
        try:
            while self.progress.epoch <= self.config.epochs and not self.out_of_patience():
                self.epoch()
                self.compare()
                metrics = self.measure()
                self.journal.epoch(self.progress.epoch, self.progress.step, metrics, self.training_s)
                self.keep_best(metrics)
                self.progress = replace(self.progress, epoch=self.progress.epoch + 1, images=0)
                self.save_checkpoint()
            self.writer.wait()
        except distributed.PeerLostError:
            self.exchange.undo()
            self.save_checkpoint()  # of the last whole step: only the current step is lost
            self.writer.wait()
            raise
        except Exception:
            self.end_writing()
            raise
        metrics = metrics or self.measure()
        if self.world.leads:
            self.finish(metrics)
        self.world.wait_for_leader()

    def resume(self) -> None:
        """Restore the state of rank 0's checkpoint, if any, on every rank. Raises CheckpointError."""
        folder = self.folder
        state = self.world.from_rank_zero(
            lambda: checkpoint.load(folder, self.outcome, self.data) if folder else None
        )
        if state is None:
            return
        self.progress = Progress(**state["progress"])
        if self.progress.epoch > self.config.epochs + 1:
            raise CheckpointError(
                f"the run has {self.progress.epoch - 1} epochs already, and --epochs asks for {self.config.epochs}; "
                "ask for at least as many, or give the run another name (--run or TRAINER_RUN)"
            )
        checkpoint.restore(self.network, state)
        self.exchange.remember()
        self.optimizer.restore(state["optimizer"])
        self.first_examples.ensure_same(state.get("first_examples"))
        self.keep_only_epoch()
        self.journal.say(f"resumed at epoch {self.progress.epoch}, image {self.progress.images}")
        for key, now in self.machine().items():
            then = state.get("machine", {}).get(key, now)
            if then != now and self.world.leads:
                self.journal.warn(
                    f"{key}: {then} before, {now} now; the model will not be the same file bit for bit"
                )

    def epoch(self) -> None:
        """Train on the remaining images of this epoch, in an order that depends on seed and epoch alone."""
        began = time.perf_counter()
        self.network.train()
        epoch, total = self.progress.epoch, len(self.train)
        logged = self.progress.images
        order = seed_of(self.config.seed, epoch)
        rank, size = self.world.rank, self.world.size
        shares = self.train.shares(epoch, order, self.progress.images, self.batch, rank, size)
        while share := self.next_of(shares):
            if self.termination.requested:
                self.save_checkpoint()
                self.writer.wait()
                raise SystemExit(ExitStatus.TERMINATED)
            done, step = self.progress.images, self.progress.step
            lr = self.learning_rate(epoch - 1 + done / total)
            self.step(share, lr)
            self.progress = replace(self.progress, images=done + share.total, step=step + 1)
            if step % self.config.log_interval == 0:
                seen, logged = self.progress.images - logged, self.progress.images
                self.journal.progress(epoch, step, done, total, self.exchange.loss.item(), lr, seen)
            if self.folder and self.is_due():
                self.save_checkpoint()
                if not self.config.checkpoint_s:
                    self.writer.wait()
        if self.world.device.type == "cuda":
            torch.cuda.synchronize()
        self.training_s += time.perf_counter() - began

    def next_of(self, shares: Iterator[Share]) -> Share | None:
        """This rank's share of the next step, None after the last one of the epoch."""
        with self.part("data"):
            return next(shares, None)

    def step(self, share: Share, lr: float) -> None:
        """One optimizer step on this rank's share of the global batch. An epoch's last shares may differ, or be empty.

        Raises distributed.PeerLostError, with unchanged weights, and DivergedError.
        """
        settings = self.config.settings
        precision.settle(self.world.device)
        if getattr(self.network, "random", True):
            seed = seed_of(self.config.seed, self.progress.epoch, self.progress.step, self.world.rank)
            torch.manual_seed(seed)
            seed_all(seed)
        self.exchange.begin()
        whole = torch.zeros((), device=self.world.device)
        passes = min(settings.accumulate, len(share.inputs))
        for inputs, targets in zip(
            share.inputs.tensor_split(passes) if passes else (),
            share.targets.tensor_split(passes) if passes else (),
            strict=True,
        ):
            with self.part("forward"), self.forward_pass:
                outputs = self.network(inputs)
            with self.part("loss"):
                loss = self.objective.loss(outputs, targets).sum() / share.total
            with self.part("backward"):
                loss.backward()
            whole = whole + loss.detach()
        with self.part("exchange"), torch.no_grad():
            self.exchange.end(len(share.inputs) / share.total, whole)
        looks = self.world.device.type == "cpu" or self.progress.step % self.config.log_interval == 0
        if looks and not math.isfinite(self.exchange.loss.item()):  # the same sum on every rank
            raise DivergedError(self.diverged(f"the loss is {self.exchange.loss.item()}"))
        with self.part("optimizer"), torch.no_grad():
            moving = [each for each in self.parameters.values() if each.grad is not None]
            if settings.clip:
                nn.utils.clip_grad_norm_(moving, settings.clip)
            if settings.weight_decay and (decaying := [each for each in moving if each.dim() > 1]):
                torch._foreach_mul_(decaying, 1 - lr * settings.weight_decay)
            self.optimizer.step(lr)

    def part(self, name: str) -> AbstractContextManager[object]:
        """A block whose time the profile counts as `name`."""
        return self.profile.part(name, self.progress.step) if self.profile else nullcontext()

    def compare(self) -> None:
        """Raises SetupError, naming rank and tensor, unless parameters, buffers and attributes agree on all ranks."""
        if self.world.size > 1:
            state = {**dict(self.network.named_parameters()), **dict(self.network.named_buffers())}
            found = self.world.gather({name: checkpoint.digest(value)[:12] for name, value in state.items()})
            what = f"what they have trained in epoch {self.progress.epoch}"
            distributed.agree(
                found,
                what,
                "a forward pass changes these tensors on each replica separately: train with one replica",
            )
            self.first_examples.agree(f"after epoch {self.progress.epoch}")

    def measure(self) -> Metrics:
        """Metrics on the test images. Raises DivergedError."""
        if not self.exchange.finite():
            raise DivergedError(self.diverged("weights are not finite"))
        batch = self.config.test_batch_size
        metrics = evaluation.evaluate(self.network, self.test, batch, self.world, self.classifies)
        if not math.isfinite(metrics.loss):
            raise DivergedError(self.diverged(f"the loss on the test images is {metrics.loss}"))
        if not math.isfinite(metrics.accuracy):  # NaN cannot be compared with other epochs
            diverged = self.diverged(f"the accuracy on the test examples is {metrics.accuracy}")
            raise DivergedError(f"{diverged}, or let the network's own metric give only finite numbers")
        return metrics

    def diverged(self, what: str) -> str:
        """The message of a DivergedError about `what`."""
        epoch, step = self.progress.epoch, self.progress.step
        return (
            f"{what} in epoch {epoch}, step {step}: training has diverged; the model on the volume is unchanged; "
            "take a smaller --lr, or limit the gradients with --clip"
        )

    def keep_best(self, metrics: Metrics) -> None:
        """Remember the epoch with the best accuracy. In a run of several epochs, also keep that epoch's model."""
        if self.progress.best_epoch and metrics.accuracy <= self.progress.best:
            return
        self.progress = replace(self.progress, best_epoch=self.progress.epoch, best=metrics.accuracy)
        if self.folder and self.config.epochs > 1:
            volume.write(self.folder / volume.BEST, self.model())

    def keep_only_epoch(self) -> None:
        """If a run of one epoch continues with more, keep that epoch's model: it is the best so far."""
        goes_on = (self.progress.epoch, self.progress.images) == (2, 0) and self.config.epochs > 1
        if self.folder and goes_on and not (self.folder / volume.BEST).exists():
            volume.write(self.folder / volume.BEST, self.model())

    def out_of_patience(self) -> bool:
        """Whether --patience epochs have passed without a better accuracy; a resumed run gives the same answer."""
        patience, progress = self.config.patience, self.progress
        return bool(patience and progress.best_epoch and progress.epoch - 1 - progress.best_epoch >= patience)

    def state(self) -> dict[str, Any]:
        """The content of a checkpoint, besides the progress."""
        return {
            "model": dict(self.network.named_parameters()),
            "buffers": dict(self.network.named_buffers()),
            "numbers": {
                name: value
                for name, value in numbers_of(self.network).items()
                if value != self.first_numbers.get(name)
            },
            "optimizer": self.optimizer.state,
            "first_examples": self.first_examples.record(),
            "config": self.outcome,
            "data": self.data,
            "machine": self.machine(),
        }

    def is_due(self) -> bool:
        """Whether it is time for a checkpoint. None begins during a write, except if each step has a checkpoint.

        True at once if the last checkpoint could not be written, so that the run ends with the reason.
        """
        every = self.config.checkpoint_s
        waited = time.monotonic() - self.saved_at
        return self.writer.failed or (waited >= every and not (every and self.writer.busy))

    def save_checkpoint(self) -> None:
        """Save the state. A state that is not finite is not saved: the next step ends every rank."""
        if not self.folder or not self.exchange.finite():
            return
        self.writer.save(self.folder, self.progress, self.state())
        self.saved_at = time.monotonic()

    def end_writing(self) -> None:
        """Wait for the checkpoint that is being written. Its error only warns: the run already ends with another."""
        try:
            self.writer.wait()
        except volume.VolumeError as error:
            self.journal.warn(str(error))

    def model(self) -> Callable[[IO[bytes]], None]:
        """A function that writes the model into a file: the present state_dict, and what it was trained on."""
        state = {
            name: checkpoint.contiguous(value.detach().cpu().clone())
            if isinstance(value, torch.Tensor)
            else value
            for name, value in self.network.state_dict().items()
        }
        described = {
            "network": self.config.network,
            "dataset": self.outcome["dataset"],
            "seed": self.config.seed,
            "validation": self.config.validation,
            "test_batch_size": self.config.test_batch_size,
            "shape": list(self.shape),
            "classes": self.classes,
        }
        return partial(checkpoint.write, state=state, description=described)

    def finish(self, metrics: Metrics) -> None:
        """Save the model for the job's user, and report. The copy in the run's folder marks the run as finished."""
        model = self.model()
        if self.out_of_patience():
            self.journal.say(
                f"stopped after epoch {self.progress.epoch - 1}: best was {self.progress.best_epoch}"
            )
        if self.folder:
            volume.write(self.config.model_dir / volume.MODEL, model)
        elif self.config.save_model:
            volume.write(Path(volume.MODEL), model)
        if self.profile:
            self.journal.say(self.profile.end())
        self.network.eval()
        if summary := getattr(self.network, "summary", None):
            self.journal.say(summary())
        if self.folder:
            page = report.page(self.facts(self.folder, metrics), self.test)
            volume.write(self.folder / volume.REPORT, page.encode(errors="backslashreplace"))
        self.journal.end(metrics)
        if self.folder:
            volume.write(self.folder / volume.MODEL, model)
            self.remove_old_runs(self.folder)
        self.journal.close()

    def facts(self, folder: Path, metrics: Metrics) -> report.Facts:
        """The content of the report of the run in `folder`; the same if a finished run reports again."""
        with volume.reported(folder):
            finished = time.gmtime((folder / checkpoint.NAME).stat().st_mtime)
        config = (
            self.config if self.config.data else replace(self.config, dataset=str(self.outcome["dataset"]))
        )
        return report.Facts(
            run=folder.name,
            config=self.described(),
            lines=journal.read(folder),
            finished=time.strftime("%Y-%m-%d %H:%M UTC", finished),
            again=shlex.join(["python3", "-m", "trainer", *config.again(self.world.size)]),
            predictions=metrics.predictions,
        )

    def remove_old_runs(self, folder: Path) -> None:
        """Remove runs by --keep-runs and --keep-days. An error here does not fail the run in `folder`."""
        try:
            removed = retention.clean(folder, self.config.keep_runs, self.config.keep_days)
        except volume.VolumeError as error:
            self.journal.warn(f"old runs are not removed: {error}")
            return
        for name in removed:
            self.journal.say(f"removed run {name}: --keep-runs or --keep-days removes it")

    def machine(self) -> dict[str, object]:
        """Everything besides the configuration that the exact bits of the result depend on."""
        cuda = self.world.device.type == "cuda"
        return {
            "replicas": self.world.size,
            "threads": list(self.world.threads),
            "precision": str(self.dtype).removeprefix("torch."),
            "device": torch.cuda.get_device_name(self.world.device) if cuda else "cpu",
            "instructions": torch.backends.cpu.get_cpu_capability(),
            "torch": str(torch.__version__),  # torch's own class of texts, which weights_only refuses
        }

    def described(self) -> dict[str, object]:
        """config.json: what the outcome depends on, then the machine."""
        machine = self.machine()
        return {
            **self.outcome,
            "epochs": self.config.epochs,
            "global_batch": self.batch,
            "world_size": machine.pop("replicas"),
            **machine,
            "threads": self.world.threads[self.world.rank],
            "test_batch_size": self.config.test_batch_size,
            **self.data,
            "processor": processor(),
            "python": platform.python_version(),
        }


def processor() -> str:
    """The processor's name as Linux gives it, else the processor's architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def main(config: Config, termination: Termination) -> None:
    """Train as `config` says, as one rank of the job. Raises SetupError if the GPU has too little memory."""
    try:
        Training(config, rendezvous.join(config), termination).run()
    except torch.OutOfMemoryError as error:
        reason = next(iter(str(error).splitlines()), "torch gives no reason")
        raise distributed.SetupError(
            f"the GPU has too little memory ({reason}); take a smaller --batch-size, --global-batch-size or "
            "--test-batch-size, or a larger --accumulate"
        ) from error

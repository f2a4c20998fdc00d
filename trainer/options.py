"""The command line: `parse` makes a Config from options; published options keep their names. Standard library only."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path

from trainer.recipes import LEARNING_RATES, PRESETS, RECIPES, Optimizer, Recipe, Schedule, usual_momentum

MODEL_DIR = Path("/opt/mnist/models")  # the published image's folder, with or without a mounted volume
NETWORKS = ("lenet", "convnet", "fast")
DATASETS = ("mnist", "fashion-mnist", "kmnist", "digits", "auto")
BACKENDS = ("gloo", "nccl", "mpi")


# Settings that older checkpoints lack, with the values that the older trainers used.
ADDED = {"weight_decay": None, "clip": 0.0, "accumulate": 1, "optimizer_args": "", "schedule_args": ""}


class OptionError(Exception):
    """Contradicting options, or a wrong default in the environment; the message says what to change."""


@dataclass(frozen=True)
class Config:
    """Everything that a run depends on. `outcome` is the part that its weights depend on."""

    network: str
    recipe: str
    settings: Recipe
    dataset: str
    preferred: tuple[str, ...]  # data sets that `auto` looks for, in this order
    epochs: int
    seed: int
    batch_size: int | None  # per replica; None keeps the recipe's global batch at any world size
    validation: (
        bool  # leave out a twelfth of the training images, and report on them instead of on the test images
    )
    test_batch_size: int
    log_interval: int
    backend: str | None
    no_cuda: bool
    save_model: bool
    log_dir: Path | None
    data_dir: Path
    baked_dir: Path
    mirror: str | None
    download: bool
    model_dir: Path
    volume: bool  # whether the user named the model directory: then it must be writable
    run: str | None
    timeout_s: int
    data: str | None = None  # package.module:function of the user's own data
    start_from: Path | None = None  # a model file with the initial weights
    checkpoint_s: float = 60.0  # seconds between checkpoints within an epoch
    patience: int | None = None  # epochs without a better accuracy, after which training stops
    profile: bool = False
    keep_runs: int | None = None  # finished runs of the job that stay on the volume, including this one
    keep_days: float | None = None  # how old such runs may be, in days
    take_finished: bool = False  # train nothing: take the model of `run`, which is finished

    def __post_init__(self) -> None:
        """Raises OptionError for options that cannot be combined."""
        if self.data and self.validation:
            raise OptionError(
                "--validation splits only a named data set: leave it out, and let --data return the validation part"
            )

    def global_batch(self, world_size: int) -> int:
        """Images per step over all replicas."""
        return self.batch_size * world_size if self.batch_size else self.settings.global_batch

    def outcome(self) -> dict[str, str | int | float | bool | None]:
        """Flat JSON of what must be equal in a checkpoint and in the run that continues from the checkpoint."""
        settings = {
            name: str(value) if isinstance(value, StrEnum) else value
            for name, value in asdict(self.settings).items()
            if name not in ("network", "epochs") and (name not in ADDED or value != ADDED[name])
        }
        if self.batch_size:
            del settings["global_batch"]
        spans_the_run = self.settings.schedule in [one for one in Schedule if one.spans_the_run]
        return {
            "network": self.network,
            "recipe": self.recipe,
            **settings,
            "dataset": self.data or self.dataset,
            **({"epochs": self.epochs} if spans_the_run else {}),
            "seed": self.seed,
            "batch_size": self.batch_size,
            "validation": self.validation,
            **({"from": str(self.start_from)} if self.start_from else {}),
            **({"patience": self.patience} if self.patience else {}),
        }

    def again(self, world_size: int) -> list[str]:
        """Options that train the same model in one process; options that the recipe already sets are left out.

        Parameters:
            world_size: replicas of this run.
        """
        usual = RECIPES[self.recipe]
        usual = replace(
            usual,
            lr=LEARNING_RATES.get((self.recipe, self.network), usual.lr),
            momentum=usual_momentum(usual, self.settings.optimizer),
        )
        given: dict[str, object] = {"recipe": self.recipe, "network": self.network, "epochs": self.epochs}
        given |= {"data": self.data} if self.data else {"dataset": self.dataset}
        given |= {
            name: value
            for name, value in asdict(self.settings).items()
            if name not in given and name != "bf16" and value != getattr(usual, name)
        }
        if batch := given.pop("global_batch", None) or (self.batch_size and self.global_batch(world_size)):
            given["global_batch_size"] = batch
        given |= {"seed": self.seed, "test_batch_size": self.test_batch_size}
        given |= {"from": self.start_from} if self.start_from else {}
        given |= {"patience": self.patience} if self.patience else {}
        words = [
            word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", str(value))
        ]
        if self.settings.bf16 != usual.bf16:
            words.append("--bf16" if self.settings.bf16 else "--no-bf16")
        return [*words, *(["--validation"] if self.validation else [])]

    def agreed(self) -> dict[str, str | int | float | bool | None]:
        """Options that must be the same on every rank: else ranks would train differently, or wait for each other."""
        return {
            **self.outcome(),
            "epochs": self.epochs,
            "test_batch_size": self.test_batch_size,
            "backend": self.backend,
            "no_cuda": self.no_cuda,
        }


def ensure_utf8(arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    """Raises OptionError for an argument or a TRAINER_ variable that is not UTF-8: the report could not show it."""
    ours = {name: value for name, value in environ.items() if name.startswith("TRAINER_")}
    for what in (*arguments, *(f"{name}={value}" for name, value in ours.items())):
        try:
            what.encode()
        except UnicodeEncodeError as error:
            told = os.fsencode(what).decode(errors="backslashreplace")
            raise OptionError(f"{told} is not UTF-8; give the file or folder another name") from error


def parser(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    """Raises OptionError for a default in the environment that is not allowed."""
    top = argparse.ArgumentParser(
        prog="trainer",
        allow_abbrev=False,
        description="Train a small image classifier on all replicas of the job. Other verbs: data, inspect, "
        "evaluate, predict; `trainer VERB --help` describes them.",
    )
    published_options(top)
    training_options(top, environ)
    data_and_volume_options(top, environ)
    return top


def published_options(top: argparse.ArgumentParser) -> None:
    """Add the options that the published systems have."""
    group = top.add_argument_group("options of the published systems")
    group.add_argument("--batch-size", type=positive, metavar="N", help="images per step and replica")
    group.add_argument("--test-batch-size", type=positive, default=500, metavar="N", help="default 500")
    group.add_argument("--epochs", type=positive, metavar="N", help="default: the recipe's")
    group.add_argument("--lr", type=not_negative, help="default: the recipe's")
    group.add_argument(
        "--momentum",
        type=not_negative,
        help="default: the recipe's; if --optimizer is not the recipe's: 0.9 for adam, 0 for sgd",
    )
    group.add_argument(
        "--gamma", type=not_negative, help="factor of lr after each epoch, with --schedule step"
    )
    group.add_argument("--no-cuda", action="store_true", help="train on the CPU, also if there is a GPU")
    group.add_argument("--seed", type=int, default=1, help="default 1")
    group.add_argument(
        "--log-interval", type=positive, default=10, metavar="N", help="steps between log lines; default 10"
    )
    group.add_argument(
        "--save-model",
        action="store_true",
        help="write the model into the working directory if the model directory cannot be written",
    )
    group.add_argument("--dir", type=Path, metavar="DIR", help="folder of the TensorBoard events")
    group.add_argument("--backend", choices=BACKENDS, help="default: nccl if each rank has a GPU, else gloo")


def training_options(top: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
    """Add the options about what is trained, and how. Raises OptionError for a wrong variable in `environ`."""
    group = top.add_argument_group("what is trained, and how")
    group.add_argument(
        "--preset", choices=PRESETS, default=default(environ, "TRAINER_PRESET", PRESETS) or "pytorch-simple"
    )
    group.add_argument("--recipe", choices=RECIPES, help="default: the preset's")
    group.add_argument(
        "--network",
        type=network,
        help=f"{', '.join(NETWORKS)} or package.module:Class; default: the recipe's",
    )
    group.add_argument(
        "--optimizer", help=f"{', '.join(Optimizer)} or a class of torch.optim; default: the recipe's"
    )
    group.add_argument(
        "--optimizer-args", type=json_object, metavar="JSON", help="arguments of torch's class"
    )
    group.add_argument(
        "--schedule",
        help=f"{', '.join(Schedule)} or a class of torch.optim.lr_scheduler, stepped after each epoch",
    )
    group.add_argument("--schedule-args", type=json_object, metavar="JSON", help="arguments of torch's class")
    group.add_argument("--warm-up", type=part, metavar="PART", help="part of the run in which lr rises")
    group.add_argument("--beta2", type=part, help="Adam's second beta; --momentum is its first")
    group.add_argument(
        "--weight-decay",
        type=not_negative,
        help="decay of matrices and kernels, separate from the gradient; default: none, or that of torch's class",
    )
    group.add_argument("--clip", type=not_negative, metavar="NORM", help="largest norm of the gradients")
    group.add_argument(
        "--accumulate",
        type=positive,
        metavar="N",
        help="passes per step; each pass has a part of the replica's examples",
    )
    group.add_argument("--from", dest="start_from", type=Path, metavar="FILE", help="model to start from")
    group.add_argument(
        "--patience", type=positive, metavar="N", help="stop after N epochs without a better accuracy"
    )
    group.add_argument(
        "--global-batch-size", type=positive, metavar="N", help="images per step over all replicas"
    )
    group.add_argument("--label-smoothing", type=part, help="default: the recipe's")
    group.add_argument(
        "--bf16",
        action=argparse.BooleanOptionalAction,
        help="multiply in bfloat16 if the processor can; default: the recipe's",
    )


def data_and_volume_options(top: argparse.ArgumentParser, environ: Mapping[str, str]) -> None:
    """Add the options about data, volume and other replicas. Raises OptionError for a wrong variable in `environ`."""
    group = top.add_argument_group("data, volume and the other replicas")
    group.add_argument("--data", type=reference, help="your own data: package.module:function")
    group.add_argument(
        "--checkpoint-seconds",
        type=not_negative,
        default=60.0,
        metavar="S",
        help="write a checkpoint every S seconds and after each epoch; 0: after each step, and wait for it; default 60",
    )
    group.add_argument(
        "--profile",
        action="store_true",
        help="print the time of each part of a step, write a trace beside the model",
    )
    group.add_argument(
        "--dataset",
        choices=DATASETS,
        default=default(environ, "TRAINER_DATASET", DATASETS) or "auto",
        help="default auto: the data set in the data directory or in the image, else digits",
    )
    group.add_argument(
        "--validation", action="store_true", help="report on 5,000 training images, not the test images"
    )
    group.add_argument("--data-dir", type=Path, default=Path(environ.get("TRAINER_DATA_DIR") or "/data"))
    group.add_argument(
        "--baked-dir",
        type=Path,
        default=Path(environ.get("TRAINER_BAKED_DIR") or "/datasets"),
        help="data sets inside the image, one folder each",
    )
    group.add_argument(
        "--mirror", default=environ.get("TRAINER_MIRROR"), help="URL of a folder with the IDX files"
    )
    group.add_argument(
        "--no-download", action="store_true", help="never download data that is not on the machine"
    )
    group.add_argument(
        "--model-dir",
        type=Path,
        default=Path(environ["TRAINER_MODEL_DIR"]) if environ.get("TRAINER_MODEL_DIR") else None,
        help=f"the volume; a folder given here has to be writable; default {MODEL_DIR}, if that is writable",
    )
    group.add_argument(
        "--run",
        type=folder_name,
        default=environ.get("TRAINER_RUN") or None,
        help="name of the folder below runs/",
    )
    group.add_argument(
        "--take-finished",
        action="store_true",
        default=default(environ, "TRAINER_TAKE_FINISHED", ("true", "false")) == "true",
        help="train nothing; make the model of --run, a finished run, the volume's latest model again",
    )
    group.add_argument(
        "--keep-runs",
        type=positive,
        default=environ.get("TRAINER_KEEP_RUNS") or None,
        metavar="N",
        help="when done, remove finished runs of this job except the last N",
    )
    group.add_argument(
        "--keep-days",
        type=not_negative,
        default=environ.get("TRAINER_KEEP_DAYS") or None,
        metavar="D",
        help="when done, remove finished runs of this job that are more than D days older than this one",
    )
    group.add_argument(
        "--timeout", type=positive, default=600, metavar="S", help="seconds to wait for other replicas"
    )


def default(environ: Mapping[str, str], name: str, allowed: Iterable[str]) -> str | None:
    """The value of the variable `name`, None if it is not set. Raises OptionError for a value not in `allowed`."""
    value = environ.get(name) or None
    if value is not None and value not in allowed:
        raise OptionError(f"{name}={value} is not allowed; use one of: {', '.join(allowed)}")
    return value


def positive(text: str) -> int:
    """A whole number of at least 1. Raises ArgumentTypeError."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1, the smallest value")
    return value


def not_negative(text: str) -> float:
    """A finite number of at least 0. Raises ArgumentTypeError."""
    value = float(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a finite number of at least 0")
    return value


def part(text: str) -> float:
    """A number of at least 0 and below 1. Raises ArgumentTypeError."""
    value = float(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1; 0 is allowed, 1 is not")
    return value


def json_object(text: str) -> str:
    """The JSON object in a standard spelling. Raises ArgumentTypeError."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text} is not JSON ({error})") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f'{text} is not a JSON object such as {{"foreach": false}}')
    return json.dumps(value, sort_keys=True)


def folder_name(text: str) -> str:
    """The name of one folder. Raises ArgumentTypeError for a path."""
    if text in (".", "..") or "/" in text or "\0" in text:
        raise argparse.ArgumentTypeError(f"{text} is not the name of one folder below runs/")
    return text


def reference(text: str) -> str:
    """`package.module:name`. Raises ArgumentTypeError for any other form."""
    if not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", text):
        raise argparse.ArgumentTypeError(f"{text} is not of the form package.module:name")
    return text


def network(text: str) -> str:
    """The name of a network of ours, or `package.module:Class`. Raises ArgumentTypeError."""
    if text not in NETWORKS and ":" not in text:
        raise argparse.ArgumentTypeError(
            f"{text} is not a network; use one of: {', '.join(NETWORKS)}, or the form package.module:Class"
        )
    return text if text in NETWORKS else reference(text)


def warn(text: str, environ: Mapping[str, str]) -> None:
    """Print a warning once for the job, on rank 0."""
    if int(environ.get("RANK", "0")) == 0:
        print(f"warning: {text}", file=sys.stderr, flush=True)


def parse(arguments: Sequence[str], environ: Mapping[str, str] = os.environ) -> Config:
    """The run that these options ask for. Unknown options only cause a warning: published manifests may have them.

    Raises OptionError; exits like argparse on a value that is not allowed.
    """
    given, unknown = parser(environ).parse_known_args(arguments)
    if unknown:
        warn(f"unknown options are ignored: {' '.join(unknown)}", environ)
    if given.batch_size and given.global_batch_size:
        raise OptionError(
            "--batch-size is per replica and --global-batch-size is over all replicas: leave one of them out"
        )
    preset = PRESETS[given.preset]
    name = given.recipe or preset.recipe
    network = given.network or RECIPES[name].network
    optimizer = given.optimizer and _member(Optimizer, given.optimizer)
    usual = usual_momentum(RECIPES[name], optimizer or RECIPES[name].optimizer)
    overrides = {
        "lr": LEARNING_RATES.get((name, network)) if given.lr is None else given.lr,
        "momentum": usual if given.momentum is None else given.momentum,
        "gamma": given.gamma,
        "global_batch": given.global_batch_size,
        "label_smoothing": given.label_smoothing,
        "bf16": given.bf16,
        "optimizer": optimizer,
        "schedule": given.schedule and _member(Schedule, given.schedule),
        "optimizer_args": given.optimizer_args,
        "schedule_args": given.schedule_args,
        "warm_up": given.warm_up,
        "beta2": given.beta2,
        "weight_decay": given.weight_decay,
        "clip": given.clip,
        "accumulate": given.accumulate,
    }
    settings = replace(RECIPES[name], **{key: value for key, value in overrides.items() if value is not None})
    without_effect = [
        f"--{name.replace('_', '-')}" for name in _unused(settings) if vars(given)[name] is not None
    ]
    if without_effect:
        warn(f"options without effect with this optimizer and schedule: {' '.join(without_effect)}", environ)
    return Config(
        network=network,
        recipe=name,
        settings=settings,
        dataset=given.dataset,
        preferred=preset.datasets,
        epochs=given.epochs or settings.epochs,
        seed=given.seed,
        batch_size=given.batch_size,
        validation=given.validation,
        test_batch_size=given.test_batch_size,
        log_interval=given.log_interval,
        backend=given.backend or preset.backend,
        no_cuda=given.no_cuda,
        save_model=given.save_model,
        log_dir=given.dir,
        data_dir=given.data_dir,
        baked_dir=given.baked_dir,
        mirror=given.mirror,
        download=not given.no_download,
        model_dir=given.model_dir or MODEL_DIR,
        volume=given.model_dir is not None,
        run=given.run,
        timeout_s=given.timeout,
        data=given.data,
        start_from=given.start_from,
        checkpoint_s=given.checkpoint_seconds,
        patience=given.patience,
        profile=given.profile,
        keep_runs=given.keep_runs,
        keep_days=given.keep_days,
        take_finished=given.take_finished,
    )


def _member(kind: type[StrEnum], name: str) -> str:
    return kind(name) if name in set(kind) else name


def _unused(settings: Recipe) -> list[str]:
    """Options that these settings do not use."""
    ours = settings.optimizer in set(Optimizer)
    used = {
        "momentum": settings.optimizer in (Optimizer.SGD, Optimizer.ADAM),
        "beta2": settings.optimizer == Optimizer.ADAM,
        "gamma": settings.schedule == Schedule.STEP,
        "warm_up": settings.schedule in (Schedule.ONE_CYCLE, Schedule.COSINE),
        "optimizer_args": not ours,
        "schedule_args": settings.schedule not in set(Schedule),
    }
    return [name for name, has in used.items() if not has]

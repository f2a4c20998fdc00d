"""`python3 -m trainer [VERB] [OPTIONS]`; without a verb it trains."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from io import TextIOWrapper
from typing import NoReturn

from trainer import launch, options, volume
from trainer.idx import DataError
from trainer.launch import ExitStatus
from trainer.volume import VolumeError


def train(arguments: Sequence[str]) -> int:
    """`trainer train`, the default verb: one rank, or torchrun that starts several ranks. Returns the exit status."""
    termination = launch.Termination()
    termination.install()
    config = options.parse(arguments)
    if config.take_finished:
        return take_finished(config)
    if launch.needs_torchrun(os.environ):
        return launch.run_torchrun(arguments)
    launch.take_static_rank(os.environ)
    launch.apply_threads()  # before the import of torch, which reads the number once
    launch.keep_freed_memory()
    from trainer import custom, distributed, evaluation, optimizers, train
    from trainer.checkpoint import CheckpointError

    try:
        train.main(config, termination)
    except distributed.PeerLostError as error:
        return failed(error, ExitStatus.PEER_LOST)
    except train.DivergedError as error:
        return failed(error, ExitStatus.DIVERGED)
    except (
        distributed.SetupError,
        CheckpointError,
        custom.CustomError,
        evaluation.ModelError,
        optimizers.OptimizerError,
    ) as error:
        return failed(error)
    return ExitStatus.DONE


def take_finished(config: options.Config) -> int:
    """Make a finished run's model the latest model, and print the metrics as if the run had just ended.

    Only rank 0 does this. Returns the exit status. Raises options.OptionError if no finished run has this name, and
    VolumeError.
    """
    if os.environ.get("RANK", "0") != "0":
        return ExitStatus.DONE
    there = volume.finished(config.model_dir)
    if config.run is None or config.run not in there:
        raise options.OptionError(
            f"--take-finished: --run {config.run} has no {volume.MODEL} below {config.model_dir}; "
            f"finished runs: {', '.join(there) or 'none'}"
        )
    from trainer import journal
    from trainer.evaluation import Metrics

    folder = config.model_dir / "runs" / config.run
    with volume.reported(folder):
        model = (folder / volume.MODEL).read_bytes()
    volume.write(config.model_dir / volume.MODEL, model)
    told = journal.Journal(None, None, speaks=True)
    told.say(f"took the model of run {config.run}; nothing is trained")
    for line in [line for line in journal.read(folder) if "accuracy" in line][-1:]:
        metrics = Metrics(line["accuracy"], line["test_loss"])
        told.epoch(int(line["epoch"]), int(line["step"]), metrics, line["training_s"])
        told.end(metrics)
    told.close()
    return ExitStatus.DONE


def data(arguments: Sequence[str]) -> int:
    """`trainer data`: copy and verify data sets. Returns the exit status."""
    from trainer import data

    return data.main(arguments)


def inspect(arguments: Sequence[str]) -> int:
    """`trainer inspect`: show what a data set holds. Returns the exit status."""
    launch.apply_threads()
    from trainer import pictures

    return pictures.main(arguments)


def evaluate(arguments: Sequence[str]) -> int:
    """`trainer evaluate`: measure a model. Returns the exit status."""
    launch.apply_threads()
    from trainer import custom, evaluation

    try:
        return evaluation.evaluate_verb(arguments)
    except (evaluation.ModelError, custom.CustomError) as error:
        return failed(error)


def predict(arguments: Sequence[str]) -> int:
    """`trainer predict`: print the class of each image. Returns the exit status."""
    launch.apply_threads()
    from trainer import custom, evaluation

    try:
        return evaluation.predict_verb(arguments)
    except (evaluation.ModelError, custom.CustomError) as error:
        return failed(error)


def failed(error: Exception, status: int = ExitStatus.REFUSED) -> int:
    """Print `error` for the user, and return `status`."""
    print(f"error: {error}", file=sys.stderr, flush=True)
    return status


VERBS: dict[str, Callable[[Sequence[str]], int]] = {
    "train": train,
    "data": data,
    "inspect": inspect,
    "evaluate": evaluate,
    "predict": predict,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    verb = given.pop(0) if given and given[0] in VERBS else "train"
    try:
        options.ensure_utf8(given, os.environ)
        return VERBS[verb](given)
    except (options.OptionError, launch.LaunchError, DataError) as error:
        return failed(error)
    except VolumeError as error:
        return failed(error, ExitStatus.VOLUME)


def run() -> NoReturn:
    """Run one verb and end the process, without destroying the process group.

    gloo's destructor joins threads. These threads may wait for the interpreter lock, which the destructor's caller
    holds: with torch 2.6 a rank sometimes hung in destroy_process_group. The same hang is possible at the interpreter's
    own end.
    """
    volume.share_with_group()
    for stream in (sys.stdout, sys.stderr):  # a network's summary may print a file's name that is not UTF-8
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        status = main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):  # from the user's data function, for example
            print(f"error: {end.code}", file=sys.stderr)
    except BaseException as error:
        traceback.print_exc()
        print(f"error: {type(error).__name__}: {error}", file=sys.stderr)
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    run()

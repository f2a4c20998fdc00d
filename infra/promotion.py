"""`python -m infra.promotion FROM TO`: what one stack's jobs train with, taken over into another stack's file.

Prints as JSON which runs have to have been good enough, and what changes; with --write it changes the file.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from infra import paths
from infra.config import ConfigError, Stack, from_file
from infra.config.load import ensure_trains, job_path
from infra.config.stack_text import literals, with_values
from infra.config.training import TrainingConfig
from infra.image.component import rendered_reference
from infra.job.context import context
from infra.job.manifest import manifest, run_of
from infra.review import rendering

# Of job.training: what decides how the weights come about. The others belong to a stack's place: which data is there,
# and what its replicas exchange gradients through.
OF_THE_PLACE = ("dataset", "digitsEpochs", "backend")
PROMOTED = tuple(
    str(field.alias) for field in TrainingConfig.model_fields.values() if field.alias not in OF_THE_PLACE
)


@dataclass(frozen=True)
class Promotion:
    """One job's part.

    Parameters:
        job: its name in the stack that is promoted.
        to: the name of the job that takes its options.
        run: the id of the run that the first stack's file and a review of it ask for.
        dataset: what that run trains on; None for the trainer's default.
        changes: key of `training` -> the values that it had and gets, as they are written.
        left: keys that the first stack does not give, and the other does; they stay.
    """

    job: str
    to: str
    run: str
    dataset: str | None
    changes: dict[str, tuple[str | None, str]]
    left: tuple[str, ...]


def promotions(source: Path, target: Path) -> list[Promotion]:
    """What the jobs of the stack file `target` take over from those of `source`. Raises ConfigError."""
    given, taking = from_file(source), from_file(target)
    runs, datasets = _runs(given), rendering.rendered_datasets(given)
    found = []
    for job, to in _pairs(given, taking):
        ensure_trains(given, job)
        ensure_trains(taking, to)
        wanted, has = (
            literals(file.read_text(), (*job_path(file, name), "training"))
            for file, name in ((source, job), (target, to))
        )
        changes = {
            key: (has.get(key), wanted[key])
            for key in PROMOTED
            if key in wanted and _value(wanted[key]) != _value(has.get(key))
        }
        dataset = datasets[job]
        left = tuple(key for key in PROMOTED if key in has and key not in wanted)
        found.append(Promotion(job, to, runs[job], dataset.value if dataset else None, changes, left))
    return found


def _written(file: Path, job: str) -> dict[str, str]:
    """The options of `job`, as the stack file has them."""
    return literals(file.read_text(), (*job_path(file, job), "training"))


def _value(written: str | None) -> float | str | None:
    """What is written may be the same number in another form, 1e-3 for example."""
    try:
        return written if written is None else float(written)
    except ValueError:
        return written


def _runs(stack: Stack) -> dict[str, str]:
    datasets, image = rendering.rendered_datasets(stack), rendered_reference(stack)
    return {job.name: run_of(manifest(job, context(stack, image, datasets[job.name]))) for job in stack.jobs}


def _pairs(given: Stack, taking: Stack) -> Iterator[tuple[str, str]]:
    """The only job of one stack and the only one of the other; of several those of one name."""
    names = [job.name for job in taking.jobs]
    if len(given.jobs) == len(names) == 1:
        yield given.jobs[0].name, names[0]
        return
    common = [job.name for job in given.jobs if job.name in names]
    if not common:
        raise ConfigError(
            f"stacks {given.name} and {taking.name} have no job of the same name\n"
            f"  fix: give a job of {taking.name} the name of the one in {given.name} whose options it takes"
        )
    yield from ((name, name) for name in common)


def write(target: Path, found: list[Promotion]) -> None:
    """Change the stack file `target`. Raises ConfigError where it would not be valid; it stays as it was then."""
    before = text = target.read_text()
    for each in found:
        values = {key: new for key, (_, new) in each.changes.items()}
        if values:
            text = with_values(
                text, (*job_path(target, each.to), "training"), values, f"stacks/{target.name}"
            )
    target.write_text(text)
    try:
        from_file(target)
    except ConfigError:
        target.write_text(before)
        raise


def main(arguments: list[str], stacks: Path = paths.ROOT / "stacks") -> int:
    """Print the promotions between two stacks; the exit status."""
    top = argparse.ArgumentParser(prog="python -m infra.promotion", description=__doc__)
    top.add_argument("source", metavar="FROM")
    top.add_argument("target", metavar="TO")
    top.add_argument("--write", action="store_true", help="change the stack file of TO")
    given = top.parse_args(arguments)
    source, target = (stacks / f"Pulumi.{name}.yaml" for name in (given.source, given.target))
    try:
        found = promotions(source, target)
        if given.write:
            write(target, found)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps([asdict(each) for each in found]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

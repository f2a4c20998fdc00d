"""All commands: a description, an example, the options, and the function that runs it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolchain import stack_files
from toolchain.checks import drift, protected, review, site, stack_changes, suites
from toolchain.images.cluster_images import PUBLISHED_NODE
from toolchain.operating import (
    clean,
    doctor,
    environment,
    program_calls,
    prometheus_text,
    setup,
    status,
    trace,
    up,
    update,
)
from toolchain.operating.status import Health
from toolchain.options import JSON, PYTEST, STACK, VERBOSE, Offer, Option, completion
from toolchain.paths import LOCAL, ROOT
from toolchain.runs import comparison, listing
from toolchain.sweep import searching
from toolchain.tools import venv

Asked = argparse.Namespace
SBOM = LOCAL / "audit" / "sbom.cdx.json"


@dataclass(frozen=True)
class Command:
    """One command.

    Parameters:
        name: the verb of the command line, and make's target.
        does: a one-line description.
        example: arguments of an example, with the verb.
        run: gets the parsed arguments; returns the exit status, None for 0.
        goals: pairs (value of the first option, make's target), if the verb has several targets.
        has_target: whether make has a target for it.
        failed: exit status after an error. It must differ from every status that says something about the stack.
    """

    name: str
    does: str
    example: str
    run: Callable[[Asked], int | None]
    options: Sequence[Option] = ()
    goals: Sequence[tuple[str, str]] = ()
    has_target: bool = True
    failed: int = 1


def _up(asked: Asked) -> None:
    update.pass_up_flags(asked.adopt, asked.replace_cluster)
    data_dir = Path(asked.data_dir) if asked.data_dir else None
    with trace.recorded(Path(asked.trace) if asked.trace else None):
        up.up(asked.stack, data_dir, protected.ensure_committed)


def _show_environment(asked: Asked) -> None:
    """Print the variables that are already known. This never does work that takes time."""
    stack_files.check(asked.stack)
    found = environment.load()
    if found is None:
        print("set-up is missing or out of date: run `make up`", file=sys.stderr)
    variables = environment.for_stack(found or {}, asked.stack)
    if found and (missing := environment.missing(variables, asked.stack)):
        command = f"run `make up STACK={asked.stack}`"
        print(
            f"stack {asked.stack} is not set up: {', '.join(missing)} have no value: {command}",
            file=sys.stderr,
        )
    print(environment.exports(variables))


def _status(asked: Asked) -> int:
    if asked.metrics:
        return prometheus_text.write(asked.stack, asked.metrics)
    return status.status(asked.stack, asked.json)


def _audit() -> int:
    """List the third-party software of this clone and this machine, and write it as a bill of materials. Returns 0."""
    with venv.program(variables := _variables()):
        from infra.audit import sbom

        sbom.write(ROOT, str(SBOM.relative_to(ROOT)), variables, PUBLISHED_NODE)
    return 0


def _lock_images() -> int:
    """Add the registry's digest to each base image that is named by a tag without a digest. Returns the exit status."""
    with venv.program(_variables()):
        from infra.audit import images

        return images.lock_all(ROOT)


def _variables() -> dict[str, str]:
    with setup.project_lock():
        venv.ensure()
    return environment.for_child(environment.tools())


ALL: tuple[Command, ...] = (
    Command(
        "up",
        "set up what is missing, bring the stack up, wait for its job",
        "up --stack dev",
        _up,
        (
            STACK,
            Option("--data-dir", "folder with the four IDX files of a data set", "DATA_DIR"),
            Option(
                "--adopt",
                "if the stack's state is lost: take over the objects that have this owner id",
                "ADOPT",
            ),
            Option(
                "--replace-cluster",
                "yes: this command may replace the stack's own cluster",
                "REPLACE_CLUSTER",
                choices=("", "no", "yes"),
            ),
            Option("--trace", "write the times of all steps to this file, for a trace viewer", "TRACE"),
            VERBOSE,
        ),
    ),
    Command(
        "fetch",
        "download and build everything that `up` needs, for a later `up` without network",
        "fetch --stack dev",
        lambda asked: setup.fetch(asked.stack),
        (STACK,),
    ),
    Command(
        "down",
        "destroy the stack, keep the model",
        "down",
        lambda asked: up.down(asked.stack, protected.ensure_clean),
        (STACK, VERBOSE),
    ),
    Command(
        "watch",
        "follow a stack's jobs, also after a plain `pulumi up`; exit status: 0 succeeded, 1 failed, 2 unknown",
        "watch --stack dev",
        lambda asked: program_calls.watch(asked.stack),
        (STACK,),
        failed=Health.UNKNOWN,
    ),
    Command(
        "status",
        "show the health of the stack; exit status: 0 healthy, 1 not healthy, 2 unknown",
        "status --stack dev --json",
        _status,
        (
            STACK,
            JSON,
            Option(
                "--metrics",
                "print the health in Prometheus' text format, or write it into FILE",
                number="?",
                bare=prometheus_text.STANDARD_OUTPUT,
                metavar="FILE",
            ),
        ),
        failed=Health.UNKNOWN,
    ),
    Command(
        "doctor",
        "check whether this machine has what `up` needs; exit status: 0 yes, 1 no, 2 unknown",
        "doctor --stack dev",
        lambda asked: doctor.doctor(asked.stack, asked.json),
        (STACK, JSON),
        failed=Health.UNKNOWN,
    ),
    Command(
        "env",
        "print variables for a shell in which you run pulumi, kubectl and kind yourself",
        "env --stack dev",
        _show_environment,
        (STACK,),
    ),
    Command(
        "review",
        "write the manifests of the stack to stacks/, and a page for the pull request",
        "review --stack gpu --base main",
        lambda asked: review.review(asked.stack, asked.base),
        (
            STACK,
            Option(
                "--base",
                "a branch or revision, to compare with where this branch leaves it; default: the main branch",
                "BASE",
            ),
        ),
    ),
    Command(
        "docs",
        "build the documentation site",
        "docs",
        lambda asked: site.build(),
    ),
    Command(
        "drift",
        "check whether the cluster matches the stack file; exit status: 0 yes, 1 no, 2 unknown",
        "drift",
        lambda asked: drift.drift(asked.stack),
        (STACK,),
        failed=Health.UNKNOWN,
    ),
    Command(
        "rerun",
        "change the stack file so that the same training runs again",
        "rerun --stack dev --job pytorch-simple",
        lambda asked: stack_changes.rerun(asked.stack, asked.job),
        (STACK, Option("--job", "only this job of the stack", "JOB")),
    ),
    Command(
        "promote",
        "copy the training options of one stack to another, as a commit",
        "promote --source dev --target gpu --min-accuracy 0.99",
        lambda asked: stack_changes.promote(asked.source, asked.target, asked.min_accuracy),
        (
            Option("--source", "stack to copy the options from", "FROM", offer=Offer.STACKS),
            Option("--target", "stack to copy them to", "TO", offer=Offer.STACKS),
            Option(
                "--min-accuracy",
                "the least accuracy that each run of the source must have, 0 to 1",
                "MIN_ACCURACY",
            ),
        ),
    ),
    Command(
        "audit",
        "list the third-party software that this clone and machine use, and write a bill of materials",
        "audit",
        lambda asked: _audit(),
    ),
    Command(
        "lock-images",
        "add the digest to each base image that is named by a tag without a digest",
        "lock-images",
        lambda asked: _lock_images(),
    ),
    Command(
        "test",
        "run a test suite",
        "test --suite unit -- -k status",
        lambda asked: suites.test(asked.suite, asked.pytest),
        (Option("--suite", "name of the suite", default="ci", choices=tuple(sorted(suites.SUITES))), PYTEST),
        goals=(
            ("ci", "test"),
            ("unit", "test-unit"),
            ("full", "test-full"),
            ("reliability", "reliability"),
            ("pictures", "pictures"),
        ),
    ),
    Command(
        "bench",
        "run the benchmarks",
        "bench -- -k plugin",
        lambda asked: suites.test("bench", asked.pytest),
        (PYTEST,),
    ),
    Command(
        "runs",
        "list the runs on this machine, the latest last",
        "runs --sort accuracy",
        lambda asked: listing.show(asked.stack, asked.sort, asked.json),
        (
            Option("--stack", "only runs of this stack", "STACK", default=None, offer=Offer.STACKS),
            Option(
                "--sort",
                "sort by this value, the largest last",
                default="ended",
                choices=tuple(sorted(listing.ORDERS)),
            ),
            JSON,
        ),
    ),
    Command(
        "models",
        "show which run made each stack's model",
        "models",
        lambda asked: listing.show_models(asked.json),
        (JSON,),
    ),
    Command(
        "use",
        "go back to a finished run: write its name into the stack file",
        "use --stack dev pytorch-simple-03f275e1",
        lambda asked: stack_changes.use(asked.stack, asked.run),
        (
            STACK,
            Option(
                "run",
                "a run that `runs` lists, or `none`: train again as the stack file says",
                "RUN",
                offer=Offer.RUNS,
            ),
        ),
    ),
    Command(
        "compare",
        "show how two runs differ: configuration, then result",
        "compare dev/pytorch-simple-03f275e1 dev/pytorch-simple-76b051b4",
        lambda asked: comparison.compare(*asked.runs),
        (
            Option(
                "runs",
                "two runs that `runs` lists: <run> or <stack>/<run>",
                "A B",
                number=2,
                metavar="RUN",
                offer=Offer.RUNS,
            ),
        ),
    ),
    Command(
        "sweep",
        "search for the best training options, as section `sweep` of the stack file says",
        "sweep --stack dev",
        lambda asked: searching.sweep(asked.stack),
        (STACK, VERBOSE),
    ),
    Command(
        "board",
        "show the runs of all stacks in TensorBoard, which only this machine can open",
        "board --port 0",
        lambda asked: listing.board(asked.port),
        (Option("--port", "TensorBoard's port; 0 takes a free port", "PORT", default=listing.PORT),),
    ),
    Command(
        "clean",
        "remove everything that these commands installed, keep models and data",
        "clean",
        lambda asked: clean.clean(protected.ensure_clean),
    ),
    Command(
        "completion",
        "print a script that completes these commands in bash",
        "completion",
        lambda asked: print(completion({each.name: each.options for each in ALL})),
        has_target=False,
    ),
)
BY_NAME = {each.name: each for each in ALL}

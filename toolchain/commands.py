"""Every command: what it does, an example, its options, and the function that does it."""

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
BILL = LOCAL / "audit" / "sbom.cdx.json"


@dataclass(frozen=True)
class Command:
    """One verb.

    Parameters:
        name: of the verb, and of make's target.
        does: a line about it.
        example: arguments that may be typed, the verb included.
        run: takes what was asked for; the exit status, None for 0.
        goals: make's targets by the value of the first option, where the verb has several.
        has_target: whether make knows it.
        failed: exit status where an error keeps it from what was asked for: a status that says anything else of a
            stack would be taken for an answer.
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
    update.hand_on_consents(asked.adopt, asked.replace_cluster)
    data_dir = Path(asked.data_dir) if asked.data_dir else None
    with trace.recorded(Path(asked.trace) if asked.trace else None):
        up.up(asked.stack, data_dir, protected.ensure_committed)


def _show_environment(asked: Asked) -> None:
    """Print what is known; never does work that takes time."""
    stack_files.check(asked.stack)
    found = environment.load()
    if found is None:
        print("set-up is missing or out of date: run `make up`", file=sys.stderr)
    variables = environment.for_stack(found or {}, asked.stack)
    if found and (missing := environment.missing(variables, asked.stack)):
        command = f"run `make up STACK={asked.stack}`"
        print(f"not set up for stack {asked.stack}: {', '.join(missing)}: {command}", file=sys.stderr)
    print(environment.exports(variables))


def _status(asked: Asked) -> int:
    if asked.metrics:
        return prometheus_text.write(asked.stack, asked.metrics)
    return status.status(asked.stack, asked.json)


def _audit() -> int:
    """List what this clone and this machine trust; changes nothing but the bill. Returns the exit status."""
    with venv.program(variables := _variables()):
        from infra.audit import sbom

        sbom.write(ROOT, str(BILL.relative_to(ROOT)), variables, PUBLISHED_NODE)
    return 0


def _lock_images() -> int:
    """Give the bases that a tag alone names the digests of their registries. Returns the exit status."""
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
            Option("--data-dir", "folder with the four IDX files", "DATA_DIR"),
            Option("--adopt", "owner's id of a stack whose state was lost", "ADOPT"),
            Option(
                "--replace-cluster",
                "whether the stack's own cluster may be made anew",
                "REPLACE_CLUSTER",
                choices=("", "no", "yes"),
            ),
            Option("--trace", "file for where the time goes, which a trace viewer opens", "TRACE"),
            VERBOSE,
        ),
    ),
    Command(
        "fetch",
        "get and build what `up` takes from elsewhere, while there is a network",
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
        "follow a stack's jobs, whoever has applied them: 0 ended well, 1 not, 2 cannot tell",
        "watch --stack dev",
        lambda asked: program_calls.watch(asked.stack),
        (STACK,),
        failed=Health.UNKNOWN,
    ),
    Command(
        "status",
        "say how the stack is: 0 healthy, 1 not, 2 cannot tell",
        "status --stack dev --json",
        _status,
        (
            STACK,
            JSON,
            Option(
                "--metrics",
                "in Prometheus' text format, into a file or to standard output",
                number="?",
                bare=prometheus_text.STANDARD_OUTPUT,
                metavar="FILE",
            ),
        ),
        failed=Health.UNKNOWN,
    ),
    Command(
        "doctor",
        "look at the machine before anything is built: 0 fit, 1 not, 2 cannot tell",
        "doctor --stack dev",
        lambda asked: doctor.doctor(asked.stack, asked.json),
        (STACK, JSON),
        failed=Health.UNKNOWN,
    ),
    Command(
        "env",
        "print shell lines that set up a shell for plain pulumi, kubectl and kind",
        "env --stack dev",
        _show_environment,
        (STACK,),
    ),
    Command(
        "review",
        "write what would be applied below stacks/, and a page for the pull request",
        "review --stack gpu --base main",
        lambda asked: review.review(asked.stack, asked.base),
        (STACK, Option("--base", "revision to compare with; else the main branch", "BASE")),
    ),
    Command(
        "docs",
        "build the site of the documents",
        "docs",
        lambda asked: site.build(),
    ),
    Command(
        "drift",
        "say whether the cluster is what the stack file says: 0 yes, 1 no, 2 cannot tell",
        "drift",
        lambda asked: drift.drift(asked.stack),
        (STACK,),
        failed=Health.UNKNOWN,
    ),
    Command(
        "rerun",
        "have the stack file ask for the same training once more",
        "rerun --stack dev --job pytorch-simple",
        lambda asked: stack_changes.rerun(asked.stack, asked.job),
        (STACK, Option("--job", "only this job of the stack", "JOB")),
    ),
    Command(
        "promote",
        "take one stack's training options to another, as a commit",
        "promote --source dev --target gpu --min-accuracy 0.99",
        lambda asked: stack_changes.promote(asked.source, asked.target, asked.min_accuracy),
        (
            Option("--source", "stack whose options are taken", "FROM", offer=Offer.STACKS),
            Option("--target", "stack that gets them", "TO", offer=Offer.STACKS),
            Option("--min-accuracy", "that the source's run has to have reached, 0 to 1", "MIN_ACCURACY"),
        ),
    ),
    Command(
        "audit",
        "list what is trusted of others, and write a bill of materials",
        "audit",
        lambda asked: _audit(),
    ),
    Command(
        "lock-images",
        "write the digest of each base that has none beside its tag",
        "lock-images",
        lambda asked: _lock_images(),
    ),
    Command(
        "test",
        "run a suite of tests",
        "test --suite unit -- -k status",
        lambda asked: suites.test(asked.suite, asked.pytest),
        (Option("--suite", "which one", default="ci", choices=tuple(sorted(suites.SUITES))), PYTEST),
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
            Option("--stack", "only those of this stack", "STACK", default=None, offer=Offer.STACKS),
            Option(
                "--sort",
                "what the last one has most of",
                default="ended",
                choices=tuple(sorted(listing.ORDERS)),
            ),
            JSON,
        ),
    ),
    Command(
        "models",
        "say which run each stack's model is from",
        "models",
        lambda asked: listing.show_models(asked.json),
        (JSON,),
    ),
    Command(
        "use",
        "go back to a finished run: write its id into the stack file",
        "use --stack dev pytorch-simple-03f275e1",
        lambda asked: stack_changes.use(asked.stack, asked.run),
        (
            STACK,
            Option(
                "run", "one that `runs` lists; none to train again as the file says", "RUN", offer=Offer.RUNS
            ),
        ),
    ),
    Command(
        "compare",
        "say in what two runs differ: configuration, then outcome",
        "compare dev/pytorch-simple-03f275e1 dev/pytorch-simple-76b051b4",
        lambda asked: comparison.compare(*asked.runs),
        (
            Option(
                "runs",
                "<run> or <stack>/<run>, as `runs` lists them",
                "A B",
                number=2,
                metavar="RUN",
                offer=Offer.RUNS,
            ),
        ),
    ),
    Command(
        "sweep",
        "search for the options that train best, as the stack file's section sweep says",
        "sweep --stack dev",
        lambda asked: searching.sweep(asked.stack),
        (STACK, VERBOSE),
    ),
    Command(
        "board",
        "show the runs of all stacks in TensorBoard, on this machine alone",
        "board --port 0",
        lambda asked: listing.board(asked.port),
        (Option("--port", "0 for one that is free", "PORT", default=listing.PORT),),
    ),
    Command(
        "clean",
        "remove all that this machine got from us, keep models and data",
        "clean",
        lambda asked: clean.clean(protected.ensure_clean),
    ),
    Command(
        "completion",
        "print what completes these commands in bash",
        "completion",
        lambda asked: print(completion({each.name: each.options for each in ALL})),
        has_target=False,
    ),
)
BY_NAME = {each.name: each for each in ALL}

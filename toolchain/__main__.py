"""`python3 -m toolchain <verb>`: what the Makefile's targets call."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from toolchain import failure, interruption
from toolchain.checks import audit, drift, promote, protected, rerun, review, suites
from toolchain.operating import (
    backend,
    clean,
    consents,
    doctor,
    environment,
    pulumi_cli,
    pulumi_output,
    status,
    up,
    watch,
)
from toolchain.runs import board, comparison, listing, models, use
from toolchain.steps import SetupError, kill_children, say


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="toolchain", description="Set this machine up and work with a stack.")
    verbs = top.add_subparsers(dest="verb", required=True)
    for name, text in (
        ("up", "set up what is missing, bring the stack up, wait for its job"),
        ("down", "destroy the stack, keep the model"),
        ("watch", "follow a stack's jobs, whoever has applied them: 0 ended well, 1 not, 2 cannot tell"),
        ("status", "say how the stack is: 0 healthy, 1 not, 2 cannot tell"),
        ("doctor", "look at the machine before anything is built: 0 fit, 1 not, 2 cannot tell"),
        ("env", "print shell lines that set up a shell for plain pulumi, kubectl and kind"),
        ("review", "write what would be applied below stacks/, and a page for the pull request"),
        ("drift", "say whether the cluster is what the stack file says: 0 yes, 1 no, 2 cannot tell"),
        ("rerun", "have the stack file ask for the same training once more"),
        ("promote", "take one stack's training options to another, as a commit"),
        ("audit", "list what is trusted of others, and write a bill of materials"),
        ("lock-images", "write the digest of each base that has none beside its tag"),
        ("test", "run a suite: unit, ci, full or reliability"),
        ("bench", "run the benchmarks"),
        ("runs", "list the runs on this machine, the latest last"),
        ("models", "say which run each stack's model is from"),
        ("use", "go back to a finished run: write its id into the stack file"),
        ("compare", "say in what two runs differ: configuration, then outcome"),
        ("board", "show the runs of all stacks in TensorBoard, on this machine alone"),
        ("clean", "remove all that this machine got from us, keep models and data"),
    ):
        verb = verbs.add_parser(name, help=text)
        if name in ("up", "down", "watch", "status", "env", "review", "drift", "rerun"):
            verb.add_argument("--stack", default="dev")
        if name in ("up", "down"):
            verb.add_argument("-v", "--verbose", action="store_true", help="show Pulumi's own output")
        if name == "up":
            verb.add_argument("--data-dir", default="", help="folder with the four IDX files")
            verb.add_argument("--adopt", default="", help="owner's id of a stack whose state was lost")
            verb.add_argument("--replace-cluster", choices=["", "no", "yes"], default="")
        if name == "rerun":
            verb.add_argument("--job", default="", help="only this job of the stack")
        if name == "promote":
            for option in ("source", "target", "min-accuracy"):
                verb.add_argument(f"--{option}", default="")
        if name == "review":
            verb.add_argument("--base", default="", help="revision to compare with; else the main branch")
        if name in ("test", "bench"):
            verb.add_argument("pytest", nargs="*", help="arguments for pytest")
        if name == "runs":
            verb.add_argument("--stack", default=None, help="only those of this stack")
            verb.add_argument("--sort", choices=sorted(listing.ORDERS), default="ended")
        if name == "use":
            verb.add_argument("--stack", default="dev")
            verb.add_argument("run", help="a run that `runs` lists; none to train again as the file says")
        if name in ("runs", "models", "status", "doctor"):
            verb.add_argument("--json", action="store_true", help="for programs, with all that is known")
        if name == "compare":
            verb.add_argument(
                "runs", nargs=2, metavar="RUN", help="<run> or <stack>/<run>, as `runs` lists them"
            )
        if name == "board":
            verb.add_argument("--port", default=board.PORT, help="0 for one that is free")
        if name == "test":
            verb.add_argument("--suite", choices=sorted(suites.SUITES), default="ci")
    return top


def show_environment(stack: str) -> None:
    """Print what is known; never does work that takes time."""
    backend.check_stack(stack)
    found = environment.load()
    if found is None:
        print("set-up is missing or out of date: run `make up`", file=sys.stderr)
    print(environment.exports(environment.for_stack(found or {}, stack)))


def dispatch(asked: argparse.Namespace) -> int:
    if getattr(asked, "verbose", False):
        pulumi_output.be_verbose()
    match asked.verb:
        case "up":
            consents.hand_on(asked.adopt, asked.replace_cluster)
            data_dir = Path(asked.data_dir) if asked.data_dir else None
            up.up(asked.stack, data_dir, protected.ensure_committed)
        case "down":
            up.down(asked.stack)
        case "watch":
            return watch.watch(asked.stack)
        case "status":
            return status.status(asked.stack, asked.json)
        case "doctor":
            return doctor.doctor(asked.json)
        case "env":
            show_environment(asked.stack)
        case "review":
            return review.review(asked.stack, asked.base)
        case "drift":
            return drift.drift(asked.stack)
        case "rerun":
            return rerun.rerun(asked.stack, asked.job)
        case "promote":
            promote.promote(asked.source, asked.target, asked.min_accuracy)
        case "audit":
            return audit.audit()
        case "lock-images":
            return audit.lock_images()
        case "test":
            return suites.test(asked.suite, asked.pytest)
        case "bench":
            return suites.test("bench", asked.pytest)
        case "runs":
            listing.show(asked.stack, asked.sort, asked.json)
        case "models":
            models.show(asked.json)
        case "use":
            use.use(asked.stack, asked.run)
        case "compare":
            comparison.compare(*asked.runs)
        case "board":
            board.board(asked.port)
        case "clean":
            clean.clean()
    return 0


def main(arguments: list[str] | None = None) -> int:
    asked = parser().parse_args(arguments)
    # A polite kill ends as Ctrl-C does: running commands are ended, Pulumi finishes what it has begun.
    interruption.catch(hasten=kill_children)
    pulumi_cli.end_with_parent(signal.SIGTERM)  # make's end is ours: nobody would see what we go on doing
    try:
        return dispatch(asked)
    except SetupError as error:
        say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        interruption.ignore()
        say("interrupted; the same command takes up where this one stopped")
        return 130
    except Exception as error:
        say(f"error: {failure.sentence(error)}")
        return 1


if __name__ == "__main__":
    sys.exit(main())

"""Changes of a stack file, which a review can show: `make use`, `make rerun` and `make promote`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra import agreed
from infra.agreed import listed
from infra.atomic_file import write_whole
from toolchain import git, stack_files
from toolchain.checks import protected, review
from toolchain.operating import environment, pulumi_cli, setup, state, user_backend
from toolchain.paths import MODELS, ROOT, STACKS
from toolchain.runs import records
from toolchain.steps import SetupError
from toolchain.tools import venv

if TYPE_CHECKING:
    from infra.stack_edits import Promotion

USAGE = "make promote FROM=dev TO=gpu MIN_ACCURACY=0.99"
NO_RUN = "none"
WHOLE_NAME = re.compile(r"[a-z][-a-z0-9]*-[0-9a-f]{8}")


def use(stack: str, name: str) -> None:
    """Write the run called `name`, or `none`, into the file of `stack`. Raises SetupError.

    A run on this machine may have a shortened name. A run on a remote volume needs its whole name.
    """
    if not name:
        raise SetupError("RUN is missing", "make use RUN=<a run that `make runs` lists>, or RUN=none")
    stack_files.check(stack)
    run = name if name == NO_RUN else _run_of(stack, name)
    with venv.program():
        from infra import stack_edits

        jobs = stack_edits.choose_run(stack_files.file(stack), run)
    for job in jobs:
        what = "trains again as the file says" if run == NO_RUN else f"uses run {run}"
        print(f"job {job} {what}; `make up STACK={stack}` applies this")
    if not jobs:
        asked = "uses no earlier run" if run == NO_RUN else f"uses run {run}"
        print(f"stacks/Pulumi.{stack}.yaml already {asked}")


def _run_of(stack: str, name: str) -> str:
    """The whole name of a run of `stack`. Raises SetupError for a run that is not finished, or of another stack.

    `stack_edits.choose_run` checks whether a run that is not on this machine may be on the volume.
    """
    name = name.removeprefix(f"{stack}/")
    try:
        run = records.find(f"{stack}/{name}")
    except SetupError:
        if WHOLE_NAME.fullmatch(name):
            return name
        raise
    if not run.is_finished:
        raise SetupError(f"run {run.name} is not finished", "use a run that `make runs` shows as finished")
    if run.model is None:
        raise SetupError(
            f"run {run.name} has no model",
            f"use a run that has a model, or train again: make rerun STACK={stack}",
        )
    return run.name


def rerun(stack: str, job: str) -> int:
    """Increase the key `rerun` of `stack`, render the stack, and print the next command; returns the exit status.

    If this fails or is interrupted, the stack file stays unchanged.

    Raises SetupError for a stack that does not exist.

    Parameters:
        job: the job that is trained again; empty for all.
    """
    stack_files.check(stack)
    with setup.project_lock():
        venv.ensure()
        file = stack_files.file(stack)
        before = file.read_bytes().decode()
        try:
            _count_up(file, job)
            status = review.render(stack)
        except BaseException:
            write_whole(file, before)
            raise
        if status:
            write_whole(file, before)
            return status
    print(f"to start the training: make up STACK={stack}")
    return 0


def _count_up(file: Path, job: str) -> None:
    with venv.program(environment.for_child(environment.tools())):
        from infra import stack_edits
        from infra.config import from_file

        numbers = stack_edits.reruns(from_file(file), job)
        stack_edits.count_up(file, numbers)
    print("\n".join(f"{name}: rerun: {number}" for name, number in numbers.items()))


def promote(source: str, target: str, asked: str) -> None:
    """Copy the training options of stack `source` to stack `target`, as a commit.

    The run that the file of `source` asks for must be finished and good enough. Otherwise it raises SetupError, with
    nothing changed.

    Parameters:
        asked: the least accuracy of each run, 0 to 1.
    """
    least = _share(asked)
    for stack in (source, target):
        stack_files.check(stack)
    if source == target:
        raise SetupError(f"FROM and TO are the same stack: {source}", USAGE)
    with setup.project_lock():
        _ensure_committed()
        venv.ensure()
        found = _promotions(source, target)
        reached = [_gate(source, each, least) for each in found]
        if not any(each.changes for each in found):
            print(f"stack {target} already trains with the options of stack {source}")
            return
        _ensure_fresh(target)
        try:
            _take_over(target, found)
            if review.render(target):
                raise SetupError(f"stack {target} cannot use these options, as shown above")
            _commit(message(source, target, found, reached))
        except BaseException:
            _restore()
            raise
    print("\n".join(_told(each, source, target) for each in found))


def _share(asked: str) -> float:
    try:
        found = float(asked)
    except ValueError:
        found = -1.0
    if not 0 <= found <= 1:
        raise SetupError(f"MIN_ACCURACY is {asked or 'missing'}; it must be a number from 0 to 1", USAGE)
    return found


def _ensure_committed() -> None:
    if changed := protected.changes():
        raise SetupError(
            f"a promotion makes its own commit, but these files have other changes: {listed(changed, protected.SHOWN)}",
            "commit them, or undo them",
        )


def _ensure_fresh(target: str) -> None:
    if review.render(target, "--check"):
        raise SetupError(
            f"the committed rendering of stack {target} is stale, as shown above",
            f"run `make review STACK={target}` and commit the files that it writes; then promote again",
        )


def _promotions(source: str, target: str) -> list[Promotion]:
    """Each job's run and changes. Raises SetupError."""
    with venv.program(environment.for_child(environment.tools())):
        from infra import stack_edits

        return stack_edits.promotions(stack_files.file(source), stack_files.file(target))


def _take_over(target: str, found: list[Promotion]) -> None:
    """Change the file of stack `target`. Raises SetupError."""
    with venv.program():
        from infra import stack_edits

        stack_edits.take_over(stack_files.file(target), found)


def _gate(source: str, wanted: Promotion, least: float) -> str:
    """The commit message's line on the run that `wanted` names. Raises SetupError if it is not good enough."""
    run, job = wanted.run, wanted.job
    accuracy = _accuracy(source, run)
    if accuracy is None:
        raise SetupError(
            f"run {run} of stack {source} reports no accuracy",
            "change the training program: it must print accuracy=<0 to 1>",
        )
    if accuracy < least:
        raise SetupError(
            f"job {job} of stack {source} has accuracy {accuracy:.4f} (run {run}); MIN_ACCURACY is {least:g}"
        )
    return f"{run} reached an accuracy of {accuracy:.4f}."


def _accuracy(stack: str, run: str) -> float | None:
    """The accuracy of `run`, from its folder on this machine, else from the stack's state.

    Raises SetupError if neither shows the run as finished.
    """
    folder, outputs = MODELS / stack / "runs" / run, _in_state(stack, run)
    found = records.read(folder) if folder.is_dir() else None
    if found and found.is_finished:
        return found.accuracy
    if outputs:
        accuracy = outputs.get("accuracy")
        return None if accuracy is None else float(accuracy)
    if found:
        done = f"{found.epochs} of {found.config.get('epochs', '?')} epochs"
        raise SetupError(f"run {run} of stack {stack} is not finished: {done}", f"make up STACK={stack}")
    what = f"stack {stack} asks for run {run}, which was not trained{_latest(stack)}"
    raise SetupError(what, f"make up STACK={stack}")


def _latest(stack: str) -> str:
    """The stack's latest run, as the end of a sentence.

    The stack file may ask for another run: for example, `dataset: auto` trains on the digits data set if MNIST is
    missing, and that is another run than the run on MNIST.
    """
    runs = [each for each in records.all_runs() if each.stack == stack and not each.is_trial]
    if not runs:
        return ""
    dataset = runs[-1].config.get("dataset")
    return f"; the stack's latest run is {runs[-1].name}" + (f", trained on {dataset}" if dataset else "")


def _in_state(stack: str, run: str) -> dict[str, Any] | None:
    """The state's outputs of the run if it has succeeded; None otherwise."""
    found = (
        each.get("outputs") or {}
        for each in state.resources(_deployment(stack))
        if each.get("type") == agreed.RUN
    )
    wanted = {"run": run, "jobStatus": agreed.SUCCEEDED}
    return next((outputs for outputs in found if wanted.items() <= outputs.items()), None)


def _deployment(stack: str) -> dict[str, Any]:
    variables: dict[str, str] = {}
    if user_backend.backend():
        variables = environment.for_stack(environment.load() or setup.prepare_pulumi(), stack)
    return pulumi_cli.deployment(variables, stack)


def message(source: str, target: str, found: list[Promotion], reached: list[str]) -> str:
    """The commit message: the accuracies, the changed keys, and the run's other keys that differ."""
    changed = [line for each in found for line in (*_lines(each), *_differing(each, source, target))]
    return "\n".join([f"Promote {source} to {target}", "", *reached, "", *changed])


def _lines(promotion: Promotion) -> list[str]:
    """A line for each changed key."""
    changes = promotion.changes.items()
    return [f"{promotion.to}: {key} {before or 'not set'} -> {after}" for key, (before, after) in changes]


def _differing(promotion: Promotion, source: str, target: str) -> list[str]:
    """A line with the run's other keys that differ between the stacks; no line if none differ."""
    keys = ", ".join(promotion.differing)
    line = f"{promotion.to}: keys that differ from {source} and stay unchanged in {target}: {keys}"
    return [line] if keys else []


def _told(promotion: Promotion, source: str, target: str) -> str:
    left = ", ".join(promotion.left)
    kept = [f"{promotion.to}: keys that only {target} sets, unchanged: {left}"] if left else []
    return "\n".join([*_lines(promotion), *kept, *_differing(promotion, source, target)])


def _commit(text: str) -> None:
    _git("add", "--all", "--", STACKS.name)
    _git("commit", "--quiet", "--message", text, "--", STACKS.name)


def _restore() -> None:
    """Undo all changes below stacks/. The tree was clean before, so all of them are ours."""
    _git("reset", "--quiet", "--", STACKS.name)
    _git("checkout", "--quiet", "--", STACKS.name)
    _git("clean", "--quiet", "--force", "-d", "--", STACKS.name)


def _git(*words: str) -> None:
    done = git.run(ROOT, *words)
    if done.returncode:
        raise SetupError(f"`git {words[0]}` failed: {done.stderr.strip()}")

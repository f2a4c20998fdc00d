"""`pulumi up`, as often as it takes: the program stops it, with nothing touched, where `make up` has to act first.

It writes into a file what that is: objects to put into the state, or a cluster whose objects go with it.

A protected stack is updated from a commit that contains the one applied last, by a plan that is shown first.
`--save-plan` and `--plan` are experimental in Pulumi (3.260). An update that would do something else fails.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from infra import agreed
from toolchain import git
from toolchain.operating import adoption, live_objects, pulumi_cli, pulumi_output, state
from toolchain.paths import ROOT
from toolchain.steps import SetupError, say, step

ROUNDS = 4
"""A lost state takes three: cluster and image, objects, the rest."""

HEAD = "git.head"
_SHOWN = 12
GONE_S = 120
"""How long the pods of a deleted job may take to end."""

PAUSE_S = 0.5

Run = Callable[..., int]


def update(variables: Mapping[str, str], stack: str, pulumi_up: Run, mended: Callable[[], bool]) -> None:
    """Run `pulumi_up(variables, *options)` until the program asks for nothing more. Raises SetupError.

    `mended` is called after a failure, and says whether it could do something about it.
    """
    options = ["--refresh"]
    asked: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    rounds, fix = 0, ""
    with tempfile.TemporaryDirectory(prefix="trainstack-update-") as folder:
        file = Path(folder) / "asked"
        while rounds < ROUNDS:
            file.unlink(missing_ok=True)
            status = pulumi_up({**variables, agreed.LOST_OBJECTS: str(file), **_replacing(asked)}, *options)
            asked = json.loads(file.read_text()) if file.exists() else {}
            if not asked and status == 0:
                break
            failed, said = pulumi_output.failed_jobs(), pulumi_output.fix()
            if status and not any(asked.values()) and not mended():
                fix = fix or said
                if not failed.keys() - left_out.keys():
                    break
                left_out |= failed
                say(f"{_named(left_out)} failed: the others go on, but for what waits for it")
            else:
                rounds += 1
            # What Pulumi was refused is not in the state, and a refresh would not know its name.
            options = _excluding(left_out) if left_out else ["--refresh"]
            if "replaced" in asked:
                say(f"cluster {asked['replaced']} is replaced; its objects go with it")
                options = []  # a refresh would start the plugin while the old cluster is there
            elif lost := asked.get("objects"):
                _adopt_lost(variables, stack, lost)
    if status or asked or left_out:
        where = f"for {_named(left_out)}" if left_out and not status else f"({status})"
        raise SetupError(f"`pulumi up` failed {where}; its messages are above", fix or pulumi_output.fix())


def _named(left_out: Mapping[str, str]) -> str:
    names = sorted({*left_out.values()})
    return f"job{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _excluding(left_out: Mapping[str, str]) -> list[str]:
    """Options that leave out what has failed, and what depends on it.

    `--continue-on-error` goes on, too, but deletes what the program has not registered when it ends early.
    """
    return ["--exclude-dependents", *(word for urn in sorted(left_out) for word in ("--exclude", urn))]


def _replacing(asked: Mapping[str, Any]) -> dict[str, str]:
    return {agreed.DELETE_UNREACHABLE: "true"} if "replaced" in asked else {}


def _adopt_lost(variables: Mapping[str, str], stack: str, lost: list[dict[str, Any]]) -> None:
    """Put the objects `lost` into the state."""
    with step("objects of this stack that its state has lost") as running:
        steps = pulumi_cli.preview({**variables, agreed.ADOPTING: "yes"}, stack)
        taken = pulumi_cli.edit_state(
            variables, stack, lambda deployment: adoption.adopt_lost(deployment, steps, lost)
        )
        running.conclude(f"{len(taken)} of {len(lost)} put into the state")
    if not taken:
        raise SetupError("objects of this stack are in the cluster, and could not be put into its state")


def hand_on_consents(adopt: str, replace_cluster: str) -> None:
    """Hand on to the program, in the environment, what the user allows for this run alone.

    Raises SetupError for what is no owner's id.

    Parameters:
        adopt: id of the owner whose objects are taken over; empty for none.
        replace_cluster: `yes` where the cluster may be replaced.
    """
    if adopt and not agreed.OWNER_ID.fullmatch(adopt):
        raise SetupError(
            f"ADOPT={adopt} is no owner's id: 16 of the characters 0 to 9 and a to f",
            "`make status` shows it",
        )
    for name, value in ((agreed.ADOPT, adopt), (agreed.REPLACE_CLUSTER, replace_cluster)):
        if value:
            os.environ[name] = value


def ensure_contained(variables: Mapping[str, str], stack: str) -> None:
    """Raises SetupError where the commit of this clone does not contain the one that `stack` was last updated from.

    Two people merge, and the runner of the first comes last; or a clone has not been pulled for a week. Each is
    reviewed and clean, and would undo the other's merge. Pulumi keeps the commit of every update in its history.
    """
    done = pulumi_cli.history(variables, stack)
    last = next((each for each in done if each["kind"] in ("update", "destroy")), None)
    applied = last["environment"].get(HEAD) if last and last["kind"] == "update" else None
    if not last or not applied:
        return
    if git.answer(ROOT, "merge-base", "--is-ancestor", applied, "HEAD") is not None:
        return
    known = git.answer(ROOT, "cat-file", "-e", f"{applied}^{{commit}}") is not None
    text = "is no part of the commit that is checked out here" if known else "is not known in this clone"
    what = (
        f"stack {stack} is protected, and was updated on {last['startTime']} from commit {applied[:_SHOWN]}"
    )
    raise SetupError(
        f"{what}, which {text}",
        "apply a commit that contains it: `git pull`, or in a runner a clone with its whole history; to go back, "
        "revert on the main branch and apply that",
    )


def by_plan(
    variables: Mapping[str, str],
    stack: str,
    options: tuple[str, ...],
    quiet: tuple[str, ...],
    ensure_reviewed: Callable[[], None],
) -> int:
    """Show what an update of `stack` will do, then do that; the exit status of what has failed, else 0.

    Parameters:
        options: of the preview and of the update alike.
        quiet: of the update alone.
        ensure_reviewed: called when the plan is made: files that have changed meanwhile may be in it.
    """
    with tempfile.TemporaryDirectory(prefix="trainstack-plan-") as folder:
        plan = str(Path(folder) / "plan.json")
        common = (*options, "--stack", stack)
        shown = ("--diff", "--non-interactive", "--color", "never")
        with step("pulumi preview"):
            status = pulumi_cli.stream(variables, "preview", "--save-plan", plan, *shown, *common)
        if status:
            return status
        ensure_reviewed()
        with step("pulumi up"):
            return pulumi_cli.stream(variables, "up", "--plan", plan, *quiet, *common)


@contextmanager
def trying_again(
    variables: Mapping[str, str], before: state.Deployment
) -> Iterator[tuple[dict[str, str], Callable[[], bool]]]:
    """The variable for `pulumi up`, and a function that has jobs tried again which had failed before this `make up`.

    Whoever asks once more has mended the cause: Pulumi sees nothing to change, and waits for what has failed already.
    Plain `pulumi up` leaves such a job as it is, and so do engines that reconcile: they come by unasked.

    Parameters:
        before: the state before the update. A job that is not in it was made by this update: its failure is news.

    The function deletes the jobs that had failed before, and returns whether there were any. It raises SetupError
    where one stays.
    """
    access = state.access(before)
    with tempfile.TemporaryDirectory(prefix="trainstack-failed-") as folder:
        file = Path(folder) / "jobs"

        def remove() -> bool:
            lines = file.read_text().splitlines() if file.exists() else []
            file.unlink(missing_ok=True)
            found = [job for job in map(json.loads, lines) if job["uid"] in state.job_uids(before)]
            for job in found:
                assert access
                _delete(variables, access, job)
            return bool(found)

        yield {agreed.FAILED_JOBS: str(file)}, remove


def _delete(variables: Mapping[str, str], access: state.Access, job: Mapping[str, str]) -> None:
    """Delete a job with its pods: those of the next one have the same names."""
    title = f"{job['namespace']}/{job['name']}"
    say(f"job {title} had failed before this `make up`: it is tried again")
    place = (job["name"], "--namespace", job["namespace"], "--ignore-not-found")

    def kubectl(*words: str) -> str:
        done = live_objects.kubectl(variables, access, *words)
        if done.returncode:
            raise SetupError(f"the failed job {title} cannot be deleted: {done.stderr.strip()}")
        return done.stdout.strip()

    with step(f"taking the failed job {title} away"):
        kubectl("delete", job["kind"], *place, "--cascade=foreground", "--wait=false")
        deadline = time.monotonic() + GONE_S
        while kubectl("get", job["kind"], *place, "--output", "jsonpath={.metadata.uid}") == job["uid"]:
            if time.monotonic() > deadline:
                raise SetupError(
                    f"the failed job {title} was deleted, and is not gone after {GONE_S} s",
                    "look at its pods: docs/runbooks/stuck-job.md",
                )
            time.sleep(PAUSE_S)

"""Runs `pulumi up` again and again until nothing is left to do.

The Pulumi program (infra/) ends a run, with nothing changed, if `make up` has to act first. It writes its request into
a file: objects to add to the state, or the name of a cluster that is replaced, and deleted with all its objects.

A protected stack is updated only from a commit that contains the commit applied last, by a plan that is shown first.
`--save-plan` and `--plan` are experimental in Pulumi (3.260). An update that differs from the plan fails.
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
"""A lost state needs three rounds: cluster and image, objects, the rest."""

HEAD = "git.head"
_SHOWN = 12
GONE_S = 120
"""How long the pods of a deleted job may take to end."""

PAUSE_S = 0.5

Run = Callable[..., int]


def update(variables: Mapping[str, str], stack: str, pulumi_up: Run, repaired: Callable[[], bool]) -> None:
    """Run `pulumi_up(variables, *options)` until the program asks for nothing more. Raises SetupError.

    `repaired` is called after a failure, and returns whether it repaired something.
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
            if status and not any(asked.values()) and not repaired():
                fix = fix or said
                if not failed.keys() - left_out.keys():
                    break
                left_out |= failed
                say(f"{_named(left_out)} failed: other jobs continue, except jobs that wait for a failed job")
            else:
                rounds += 1
            # A resource that failed is not in the state, and a refresh would not know its name.
            options = _excluding(left_out) if left_out else ["--refresh"]
            if "replaced" in asked:
                say(f"cluster {asked['replaced']} is replaced; its objects are deleted with it")
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
    """Options that leave out failed resources, and the resources that depend on them.

    `--continue-on-error` also continues, but if the program ends early, Pulumi deletes what was not registered.
    """
    return ["--exclude-dependents", *(word for urn in sorted(left_out) for word in ("--exclude", urn))]


def _replacing(asked: Mapping[str, Any]) -> dict[str, str]:
    return {agreed.DELETE_UNREACHABLE: "true"} if "replaced" in asked else {}


def _adopt_lost(variables: Mapping[str, str], stack: str, lost: list[dict[str, Any]]) -> None:
    """Add the objects `lost` to the state."""
    with step("adding objects that the state has lost") as running:
        steps, _ = pulumi_cli.preview({**variables, agreed.ADOPTING: "yes"}, stack)
        taken = pulumi_cli.edit_state(
            variables, stack, lambda deployment: adoption.adopt_lost(deployment, steps, lost)
        )
        running.conclude(f"{len(taken)} of {len(lost)} added")
    if not taken:
        raise SetupError(
            "objects of this stack are in the cluster, but `make up` could not add them to the stack's state"
        )


def pass_up_flags(adopt: str, replace_cluster: str) -> None:
    """Tell the Pulumi program, by environment variables, what the user allows for this run only.

    Raises SetupError if `adopt` is not an owner id.

    Parameters:
        adopt: the owner id of the objects that are taken over; empty for none.
        replace_cluster: `yes` if the cluster may be replaced.
    """
    if adopt and not agreed.OWNER_ID.fullmatch(adopt):
        raise SetupError(
            f"ADOPT={adopt} is not an owner id, which has 16 characters: digits 0 to 9 and letters a to f",
            "`make status` shows the id",
        )
    for name, value in ((agreed.ADOPT, adopt), (agreed.REPLACE_CLUSTER, replace_cluster)):
        if value:
            os.environ[name] = value


def ensure_contained(variables: Mapping[str, str], stack: str) -> None:
    """Raises SetupError if this clone's commit does not contain the commit of the last update of `stack`.

    Somebody may apply an older commit later: a slow runner, or a user of a clone that was not pulled for a week. That
    commit is reviewed and clean, but would undo a newer merge. Pulumi keeps the commit of every update in its history.
    """
    done = pulumi_cli.history(variables, stack)
    last = next((each for each in done if each["kind"] in ("update", "destroy")), None)
    applied = last["environment"].get(HEAD) if last and last["kind"] == "update" else None
    if not last or not applied:
        return
    if git.answer(ROOT, "merge-base", "--is-ancestor", applied, "HEAD") is not None:
        return
    known = git.answer(ROOT, "cat-file", "-e", f"{applied}^{{commit}}") is not None
    text = "is not part of the commit that is checked out here" if known else "is not known in this clone"
    what = (
        f"stack {stack} is protected, and was updated on {last['startTime']} from commit {applied[:_SHOWN]}"
    )
    raise SetupError(
        f"{what}, which {text}",
        "check out a commit that contains that commit: `git pull`; in a runner, clone the whole history; to go back, "
        "revert that commit on the main branch and apply the result",
    )


def by_plan(
    variables: Mapping[str, str],
    stack: str,
    options: tuple[str, ...],
    quiet: tuple[str, ...],
    ensure_reviewed: Callable[[], None],
) -> int:
    """Show what an update of `stack` will do, then do it; returns the exit status of the command that failed, else 0.

    Parameters:
        options: for the preview and the update.
        quiet: only for the update.
        ensure_reviewed: called after the preview, because the plan may contain files that have changed meanwhile.
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
def retrying_failed_jobs(
    variables: Mapping[str, str], before: state.Deployment
) -> Iterator[tuple[dict[str, str], Callable[[], bool]]]:
    """The variable for `pulumi up`, and a function that deletes jobs that failed before this `make up`.

    A user who runs `make up` again has fixed the cause, but Pulumi sees no change and waits for the failed job. So the
    job is deleted and created again. Plain `pulumi up` leaves such a job unchanged, and so do engines that reconcile:
    there, no user has asked for another try.

    Parameters:
        before: the state before the update. A job that is not in it is new, and its failure is reported.

    The function returns whether there were such jobs. It raises SetupError if such a job still exists after GONE_S
    seconds.
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
    """Delete a job with its pods, because the pods of the next job have the same names."""
    title = f"{job['namespace']}/{job['name']}"
    say(f"job {title} had failed before this `make up`: it is tried again")
    place = (job["name"], "--namespace", job["namespace"], "--ignore-not-found")

    def kubectl(*words: str) -> str:
        done = live_objects.kubectl(variables, access, *words)
        if done.returncode:
            raise SetupError(f"the failed job {title} cannot be deleted: {done.stderr.strip()}")
        return done.stdout.strip()

    with step(f"deleting the failed job {title}"):
        kubectl("delete", job["kind"], *place, "--cascade=foreground", "--wait=false")
        deadline = time.monotonic() + GONE_S
        while kubectl("get", job["kind"], *place, "--output", "jsonpath={.metadata.uid}") == job["uid"]:
            if time.monotonic() > deadline:
                raise SetupError(
                    f"the failed job {title} was deleted, but still exists after {GONE_S} s",
                    "look at its pods: docs/runbooks/stuck-job.md",
                )
            time.sleep(PAUSE_S)

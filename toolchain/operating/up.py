"""`make up` and `make down`: set-up, then Pulumi, then the result for the user."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from infra import agreed
from toolchain import stack_files
from toolchain.machine import engine, preflight
from toolchain.operating import (
    adoption,
    api_server,
    backend,
    doctor,
    environment,
    leftovers,
    live_objects,
    live_view,
    objects_left,
    program_calls,
    provenance,
    pulumi_cli,
    pulumi_output,
    setup,
    stack_locks,
    state,
    state_copies,
    time_estimate,
    update,
    user_backend,
)
from toolchain.paths import MODELS, ROOT
from toolchain.runs import report_timeline
from toolchain.steps import SetupError, expect, phase_times, say, step
from toolchain.tools import venv

MOST_TIMES, LEAST_PART = 4, 0.1
_QUIET = ("--yes", "--skip-preview", "--non-interactive", "--color", "never", "--suppress-progress")


def up(stack: str, data_dir: Path | None, ensure_committed: Callable[[str], Callable[[], None]]) -> None:
    """Bring `stack` up and print how long that took, and its result. Raises SetupError.

    Parameters:
        data_dir: folder with a data set to copy first; None for none.
        ensure_committed: called first, with the stack's name. It returns a check that is called after the data set is
            copied, and again for each plan of a protected stack, because files may have changed in between.
    """
    stack_files.check(stack)
    user_backend.check(stack)
    began = time.monotonic()
    expect(time_estimate.last_times())
    with live_view.shown() as view, setup.project_lock(), preflight.watched():
        ensure_reviewed = ensure_committed(stack)
        if expected := time_estimate.estimate(stack):
            say(expected)
        if data_dir:
            setup.copy_verified(data_dir)
        ensure_reviewed()
        variables = prepare_stack(stack)
        view.begin()
        _forget_left_behind(variables, stack)
        before = pulumi_cli.deployment(variables, stack)
        doctor.ensure_node_possible(before, stack)
        if state.objects(before):
            with step("checking the volumes"):
                program_calls.release_volumes(variables, stack, objects_left.titles(before))
        finished = state.finished(before)
        program_calls.remove_finished(variables, stack, [*finished.values()])
        pulumi_output.expect_gone(finished)
        sources = provenance.begin(stack)
        try:
            _update(variables, stack, before, ensure_reviewed)
        except SetupError:
            with suppress(SetupError):  # the first error matters more than an unreadable state
                report_timeline.complete(_runs(pulumi_cli.deployment(variables, stack), stack))
            raise
        after = pulumi_cli.deployment(variables, stack)
        found = state.outputs(after)
        with step("checking cluster and model"):
            program_calls.inspect(variables, stack, found)
        runs = _runs(after, stack)
        provenance.keep(runs, sources, found.get("imageDigest"))
        report_timeline.complete(runs)
        provenance.end(stack)
        seconds = time.monotonic() - began
        time_estimate.keep(stack, seconds)
    print(
        "\n".join([took(seconds, phase_times()), *provenance.report_lines(runs), *closing_lines(found)]),
        flush=True,
    )


def _runs(deployment: state.Deployment, stack: str) -> list[Path]:
    """The folders of the runs of the stack's jobs."""
    return [MODELS / stack / "runs" / name for name in state.runs(deployment)]


def update_again(stack: str, ensure_reviewed: Callable[[], None]) -> state.Deployment:
    """Run `pulumi up` on a stack that this process has brought up; returns its state afterwards.

    Raises SetupError, also if somebody has taken the stack down meanwhile.

    Parameters:
        ensure_reviewed: the check that ensure_committed returns to `up`.
    """
    variables = environment.for_stack(environment.load() or {}, stack)
    with setup.project_lock():
        before = pulumi_cli.deployment(variables, stack)
        if not state.has_resources(before):
            raise SetupError(f"stack {stack} was taken down meanwhile", "run the same command to continue")
        _update(variables, stack, before, ensure_reviewed)
        return pulumi_cli.deployment(variables, stack)


def took(seconds: float, times: Sequence[tuple[str, float]]) -> str:
    """One line with the total time and the longest phases. Each phase was already printed on its own line."""
    worth = [each for each in longest(times) if each[1] >= LEAST_PART * seconds]
    phases = ", ".join(f"{name} {each:.1f} s" for name, each in worth)
    return f"took {seconds:.1f} s{f', longest: {phases}' if phases else ''}"


def longest(times: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """The longest phases, in their order. A cold start has many phases."""
    least = sorted((seconds for _, seconds in times), reverse=True)[:MOST_TIMES][-1:]
    return [(name, seconds) for name, seconds in times if seconds >= min(least, default=0)][:MOST_TIMES]


def _update(
    variables: dict[str, str], stack: str, before: state.Deployment, ensure_reviewed: Callable[[], None]
) -> None:
    """Run `pulumi up` in rounds, and do between them what the Pulumi program asks for. `before`: the current state."""

    def pulumi_up(changed: Mapping[str, str], *options: str) -> int:
        if environment.is_protected(stack):
            update.ensure_contained(variables, stack)
            return update.by_plan(changed, stack, options, _QUIET, ensure_reviewed)
        with step("pulumi up"):
            return pulumi_cli.stream(changed, "up", *options, *_QUIET, "--stack", stack)

    with update.retrying_failed_jobs(variables, before) as (variable, remove_failed_jobs):

        def repaired() -> bool:
            return (
                _forget_left_behind(variables, stack)
                or _wait_for_api(variables, stack)
                or api_server.wait_for_definitions(variables, pulumi_cli.deployment(variables, stack))
                or remove_failed_jobs()
            )

        update.update({**variables, **variable}, stack, pulumi_up, repaired)


def _wait_for_api(variables: dict[str, str], stack: str) -> bool:
    """Wait for the API server if it does not answer; returns whether it answers now, and did not before.

    Pulumi's own plugin gives up at the first failure. If the server only refuses to tell this user its health, the wait
    ends early. Raises SetupError.
    """
    access = state.access(pulumi_cli.deployment(variables, stack))
    if access is None or api_server.problem(variables, access) is None:
        return False
    api_server.wait(variables, access)
    return api_server.problem(variables, access) is None


def _forget_left_behind(variables: dict[str, str], stack: str) -> bool:
    """Remove objects of a replaced cluster from the state; returns whether there were any."""
    if not state.left_behind(pulumi_cli.deployment(variables, stack)):
        return False
    with step("removing the objects of the replaced cluster from the state"):
        pulumi_cli.edit_state(variables, stack, state.forget_left_behind)
    return True


def down(stack: str, ensure_clean: Callable[[str], None]) -> None:
    """Destroy `stack`; its models stay. Then stop the engine that we started, if nothing else uses it.

    Parameters:
        ensure_clean: called first, with the stack's name, and again before the destruction.
    """
    stack_files.check(stack)
    user_backend.check(stack)
    with setup.project_lock():
        ensure_clean(stack)
        if leftovers.begun():
            venv.ensure()  # the Pydantic models say whether one of these clusters is this stack's
        cluster = environment.cluster(stack)
        half_made = cluster is not None and leftovers.marker(cluster).exists()
        # The user's own backend can be read only when Pulumi is installed.
        ours = user_backend.backend() is None
        if ours and not state.has_resources(state.deployment(stack)) and not half_made:
            engine.stop()
            print(f"stack {stack} is not up")
            return
        variables = _set_up(stack)
        if state.has_resources(deployment := pulumi_cli.deployment(variables, stack)):
            _destroy(variables, deployment, stack, ensure_clean)
        if cluster:
            engine.ensure()
            program_calls.remove_unfinished(variables, stack, cluster)
        engine.stop()
    print(f"stack {stack} is down; its models are kept in {MODELS / stack}")


def _destroy(
    variables: dict[str, str], deployment: dict[str, Any], stack: str, ensure_clean: Callable[[str], None]
) -> None:
    """Destroy the stack. Its own cluster may be deleted as a whole, without a request to the API server.

    In another cluster, the refresh comes first: if an object cannot be read, the refresh fails before the state is
    edited.
    """
    open_records = state.unfollowed(deployment, stack)
    if state.own_cluster(deployment):
        program_calls.keep_unfollowed(variables, stack, open_records)
        left = objects_left.claim_lines(deployment, stack, lambda _: None)
        if state.has_pending(deployment):
            pulumi_cli.edit_state(variables, stack, state.forget_pending)
    else:
        variables = prepare_stack(stack, builds_image=False)
        program_calls.keep_unfollowed(variables, stack, open_records)
        with step("pulumi refresh"):
            _pulumi(variables, "refresh", stack=stack)
        left = _retain_shared(variables, stack)
        deployment = pulumi_cli.deployment(variables, stack)
        left += objects_left.claim_lines(
            deployment, stack, live_objects.lookup(variables, state.access(deployment))
        )
    ensure_clean(stack)
    with step("pulumi destroy"):
        _pulumi(variables, "destroy", stack=stack)
    for line in left:
        print(line)


def _retain_shared(variables: dict[str, str], stack: str) -> list[str]:
    """Mark objects that others use, so that they stay; returns lines that name them and their users."""
    deployment = pulumi_cli.deployment(variables, stack)
    with step("looking for others who use the stack's objects"):
        users = program_calls.dependents(variables, stack, objects_left.titles(deployment))
        pulumi_cli.edit_state(variables, stack, lambda held: objects_left.retain(held, users))
    return objects_left.left(deployment, users)


def prepare_stack(stack: str, *, builds_image: bool = True) -> dict[str, str]:
    """Set up machine and backend, check the cluster, repair what a killed run left; returns the variables.

    Parameters:
        builds_image: whether the stack's trainer image is built next.
    """
    variables = _set_up(stack, builds_image=builds_image)
    variables |= setup.prepare_operators(stack)
    program_calls.repair_cluster(variables, stack)
    _make_sure_of_cluster(variables, stack)
    program_calls.ensure_named_cluster(variables, stack)
    stack_locks.release(stack)  # a run that still works has pending operations, too
    if state.has_pending(pulumi_cli.deployment(variables, stack)):
        with step("repairing what a killed run left"):
            live = live_objects.lookup(variables, state.access(pulumi_cli.deployment(variables, stack)))
            pulumi_cli.edit_state(variables, stack, lambda held: adoption.adopt_pending(held, live))
            _pulumi(variables, "refresh", "--clear-pending-creates", stack=stack)
    return variables


def _set_up(stack: str, *, builds_image: bool = False) -> dict[str, str]:
    variables = environment.for_stack(setup.prepare(stack, builds_image=builds_image), stack)
    stack_locks.release(stack)
    if user_backend.backend() is None:
        state_copies.heal(stack)
        state_copies.keep(stack)
    stack_locks.end_orphans()
    backend.prepare(stack, variables)
    return variables


def _make_sure_of_cluster(variables: dict[str, str], stack: str) -> None:
    """Make sure that the next refresh can read the stack's objects. Raises SetupError if they cannot be read.

    If the cluster is proved to be gone, its objects are removed from the state. Otherwise this waits for the API
    server.
    """
    deployment = pulumi_cli.deployment(variables, stack)
    if not state.objects(deployment):
        return
    engine.ensure()
    if program_calls.cluster_is_gone(variables, deployment):
        with step("the cluster is gone: removing its objects from the state"):
            given_up = {**variables, agreed.DELETE_UNREACHABLE: "true"}
            _pulumi(given_up, "refresh", stack=stack)
    elif (access := state.access(deployment)) and api_server.problem(variables, access):
        if not api_server.is_named(variables, access):
            # The kubeconfig was moved, or its context renamed. The update uses the kubeconfig of the stack file.
            access = environment.access(stack) or access
        api_server.wait(variables, access)


def _pulumi(variables: dict[str, str], verb: str, *options: str, stack: str) -> None:
    if status := pulumi_cli.stream(variables, verb, *options, *_QUIET, "--stack", stack):
        raise SetupError(f"`pulumi {verb}` failed ({status}); its messages are above", pulumi_output.fix())


def closing_lines(found: dict[str, Any]) -> list[str]:
    """The last four lines of `make up` for each job; the line on the model has its whole path on this machine."""
    jobs: dict[str, dict[str, Any]] = found.get("jobs") or {str(found.get("jobName")): found}
    lines = []
    for name, job in jobs.items():
        if "modelPath" not in job:
            raise SetupError(f"the stack reports no model for job {name}", "see `pulumi stack output`")
        lines += [
            f"job: {found.get('namespace')}/{name} {job.get('jobStatus')}",
            f"model: {_on_this_machine(job['modelPath'])}",
            f"accuracy={job.get('accuracy')}",
            f"loss={job.get('loss')}",
        ]
    return lines


def _on_this_machine(model: str | None) -> str:
    return str(ROOT / model) if model else "none"

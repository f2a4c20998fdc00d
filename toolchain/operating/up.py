"""`make up` and `make down`: set-up, then Pulumi, then what the user wants to know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolchain import setup
from toolchain.machine import engine
from toolchain.operating import (
    adoption,
    backend,
    data_folder,
    environment,
    leftovers,
    pulumi_cli,
    recovery,
    user_backend,
)
from toolchain.paths import MODELS
from toolchain.steps import SetupError, phase_times, step
from toolchain.tools import venv

_QUIET = ("--yes", "--skip-preview", "--non-interactive", "--color", "never", "--suppress-progress")


def up(stack: str, data_dir: Path | None) -> None:
    """Bring `stack` up and print its phases' times and its result. Raises SetupError."""
    backend.check_stack(stack)
    user_backend.check(stack)
    with setup.alone():
        if data_dir:
            data_folder.take(data_dir)
        variables = ready(stack)
        with step("pulumi up"):
            _pulumi(variables, "up", "--refresh", stack=stack)
        found = pulumi_cli.outputs(variables, stack)
    print("\n".join(f"{seconds:7.1f} s  {name}" for name, seconds in phase_times()))
    print("\n".join(closing_lines(found)), flush=True)


def down(stack: str) -> None:
    """Destroy `stack`; the model stays. Stops the engine that we started when nothing else uses it."""
    backend.check_stack(stack)
    user_backend.check(stack)
    with setup.alone():
        if leftovers.markers():
            venv.ensure()  # the program's models tell whether one of them is this stack's
        cluster = environment.cluster(stack)
        half_made = cluster is not None and leftovers.marker(cluster).exists()
        # A backend of the user's can be asked only when Pulumi is there.
        ours = user_backend.backend() is None
        if ours and not recovery.has_resources(recovery.deployment(stack)) and not half_made:
            engine.stop()
            print(f"stack {stack} is not up")
            return
        variables = ready(stack)
        if recovery.has_resources(_deployment(variables, stack)):
            with step("pulumi destroy"):
                _pulumi(variables, "destroy", "--refresh", stack=stack)
        if cluster:
            leftovers.remove(engine.ensure(), cluster)
        engine.stop()
    print(f"stack {stack} is down; its models are kept in {MODELS / stack}")


def ready(stack: str) -> dict[str, str]:
    """Set up the machine and the stack's backend, and clear what a killed run left; returns the variables."""
    variables = environment.complete(setup.prepare(), stack)
    if user_backend.backend() is None:
        recovery.release(stack)
    backend.prepare(stack, variables)
    if recovery.has_pending(_deployment(variables, stack)):
        with step("taking up what a killed run left"):
            pulumi_cli.edit_state(variables, stack, adoption.adopt)
            _pulumi(variables, "refresh", "--clear-pending-creates", stack=stack)
    return variables


def _deployment(variables: dict[str, str], stack: str) -> dict[str, Any]:
    """The stack's state: of our own backend without the second that Pulumi takes."""
    return pulumi_cli.deployment(variables, stack) if user_backend.backend() else recovery.deployment(stack)


def _pulumi(variables: dict[str, str], verb: str, *options: str, stack: str) -> None:
    if status := pulumi_cli.stream(variables, verb, *options, *_QUIET, "--stack", stack):
        raise SetupError(f"`pulumi {verb}` failed ({status}); its messages are above")


def closing_lines(found: dict[str, Any]) -> list[str]:
    """The four lines per job that `make up` ends with."""
    jobs: dict[str, dict[str, Any]] = found.get("jobs") or {str(found.get("jobName")): found}
    lines = []
    for name, job in jobs.items():
        if "modelPath" not in job:
            raise SetupError(f"the stack reports no model for job {name}", "see `pulumi stack output`")
        lines += [
            f"job: {found.get('namespace')}/{name} {job.get('jobStatus')}",
            f"model: {job['modelPath'] or 'none'}",
            f"accuracy={job.get('accuracy')}",
            f"loss={job.get('loss')}",
        ]
    return lines

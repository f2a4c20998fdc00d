"""Calls modules of the program, in the virtual environment, beside Pulumi."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from typing import Any

from toolchain import stack_files
from toolchain.operating import environment, live_view, pulumi_output
from toolchain.operating.job_lines import JobLines
from toolchain.paths import MODELS, ROOT, STACKS
from toolchain.runs import report_timeline
from toolchain.steps import SetupError, say, step, stoppable, tell, wait
from toolchain.tools import venv


def build_image(variables: Mapping[str, str], stack: str) -> None:
    """Build the trainer image of `stack` in the engine, where it is not there. Raises SetupError."""
    _show(_run(variables, "infra.image.engine_image", stack))


def fetch(variables: Mapping[str, str], stack: str) -> None:
    """Download the registry's image where `stack` needs one. Raises SetupError."""
    _show(_run(variables, "infra.prefetch", stack))


def release_volumes(variables: Mapping[str, str], stack: str, own: list[str]) -> None:
    """Free volumes that a deletion has left half way. Raises SetupError where somebody else's pod holds one.

    Parameters:
        own: titles of the stack's own objects.
    """
    _show(_run(variables, "infra.release_volumes", stack, stdin=json.dumps(own)))


def ensure_named_cluster(variables: Mapping[str, str], stack: str) -> None:
    """Raises SetupError where another cluster is in reach than the stack file names, or where that cannot be told."""
    if environment.is_named(stack):
        _run(variables, "infra.clusters.existing.kubeconfig", str(STACKS / f"Pulumi.{stack}.yaml"))


def inspect(variables: Mapping[str, str], stack: str, outputs: Mapping[str, Any]) -> None:
    """Raises SetupError where objects of `stack` are missing or on their way out, or its model is not its run's."""
    about = "`pulumi up` has ended; of the stack a last look says:\n"
    _show(_run(variables, "infra.inspection", stack, stdin=json.dumps(outputs), about=about))


def dependents(variables: Mapping[str, str], stack: str, own: list[str]) -> dict[str, Any]:
    """Others' objects that depend on what `stack` has made: `jobs`, and by namespace and claim. Raises SetupError.

    Parameters:
        own: titles of the stack's own objects.
    """
    told = _run(variables, "infra.dependents", stack, stdin=json.dumps(own))
    found: dict[str, Any] = json.loads(told)
    return found


def keep_unfollowed(variables: Mapping[str, str], stack: str, jobs: list[dict[str, str]]) -> None:
    """Keep what is left of `jobs`, of which nobody has kept the end. A line tells what cannot be had."""
    if jobs:
        with step("what is left of jobs that nobody has followed"):
            try:
                _show(_run(variables, "infra.run.unfollowed", stack, stdin=json.dumps(jobs)))
            except SetupError as error:
                say(f"their logs are not kept: {error}")


def remove_unfinished(variables: Mapping[str, str], stack: str, cluster: str) -> None:
    """Remove what a killed `make up` left of `cluster`. Raises SetupError for a finished one: no state told of it."""
    _run(variables, "infra.clusters.unfinished", cluster, stack)


def watch(stack: str) -> int:
    """Show what the jobs of `stack` do until they end; 0 when all ended well, 1 when one did not, 2 cannot tell.

    It changes nothing in the cluster, and does not care who has applied the jobs. It takes no lock: `make up` may be at
    work meanwhile. Raises SetupError for a stack that does not exist.
    """
    stack_files.check(stack)
    venv.ensure()
    variables = environment.for_stack(environment.load() or {}, stack)
    with live_view.shown(), step(f"jobs of {stack}") as running:
        status = _follow({**variables, **pulumi_output.DRAWN}, stack)
        if status:
            running.fail()
    report_timeline.complete(MODELS.glob(f"{stack}/runs/*"))
    return status


def _follow(variables: dict[str, str], stack: str) -> int:
    lines = JobLines(say, tell)
    child = subprocess.Popen(
        venv.command("infra.watch", stack),
        cwd=ROOT,
        env=environment.for_child(variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # Ctrl-C is for us
    )
    with child, stoppable(child):
        assert child.stdout
        for line in child.stdout:
            text = line.decode(errors="replace").rstrip("\n")
            if not lines.take(text):
                say(text)
        status = wait(child)
    lines.flush()
    tell({"is": "quiet"})
    return status


def _run(
    variables: Mapping[str, str],
    module: str,
    *arguments: str,
    stdin: str = "",
    about: str = "",
) -> str:
    """Run a module of the program; its output.

    Raises SetupError with `about` and what the module says, where it fails.
    """
    try:
        return venv.output(module, *arguments, env=environment.for_child(variables), stdin=stdin)
    except SetupError as error:
        raise SetupError(f"{about}{error}") from None


def _show(text: str) -> None:
    for line in text.splitlines():
        say(line)

"""Calls modules of the program, in the virtual environment, beside Pulumi."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from typing import Any

from toolchain import stack_files
from toolchain.machine import engine
from toolchain.operating import environment, leftovers, live_view, pulumi_output, state
from toolchain.operating.job_lines import JobLines
from toolchain.paths import MODELS, ROOT
from toolchain.runs import report_timeline
from toolchain.steps import SetupError, say, step, stoppable, tell, wait
from toolchain.tools import venv


def build_image(variables: Mapping[str, str], stack: str) -> None:
    """Build the trainer image of `stack` in the engine, where it is not there. Raises SetupError."""
    with venv.program(environment.for_child(variables)):
        from infra.config import from_file
        from infra.image import engine_image

        say(engine_image.built(from_file(stack_files.file(stack)).image))


def repair_cluster(variables: Mapping[str, str], stack: str) -> None:
    """Start what is stopped of the stack's own cluster before Pulumi's refresh, which would fail without it.

    That is nodes and registry, and its kubeconfig is written where it is amiss. Says what it did. Raises SetupError
    when the cluster cannot be made to work, nothing of it is replaced then; and when there is one of that name that
    this clone did not make.
    """
    cluster = environment.cluster(stack)
    if cluster is None or not (
        leftovers.marker(cluster).exists() or leftovers.nodes_of_anybody(engine.ensure(), cluster)
    ):
        return
    with step(f"cluster {cluster}"), venv.program(environment.for_child(variables)):
        from infra.clusters import selection

        selection.repair(cluster, lambda line: say(f"   {line}"))


def cluster_is_gone(variables: Mapping[str, str], deployment: state.Deployment) -> bool:
    """Whether the cluster in `deployment` is proved gone, and its objects with it. Raises SetupError.

    Nothing proves that somebody else's cluster is gone: an API server that does not answer proves nothing.
    """
    found = state.clusters(deployment)
    if not found:
        return False
    with venv.program(environment.for_child(variables)):
        from infra.clusters import selection

        return any(selection.is_lost(kind, props) for kind, props in found.items())


def release_volumes(variables: Mapping[str, str], stack: str, own: list[str]) -> None:
    """Free volumes that a deletion has left half way. Raises SetupError where somebody else's pod holds one.

    Parameters:
        own: titles of the stack's own objects.
    """
    with venv.program(environment.for_child(variables)):
        from infra import release_volumes

        release_volumes.release(stack_files.file(stack), own, say)


def ensure_named_cluster(variables: Mapping[str, str], stack: str) -> None:
    """Raises SetupError where another cluster is in reach than the stack file names, or where that cannot be told."""
    if (told := environment.cluster_access(stack)) and told.is_named:
        with venv.program(environment.for_child(variables)):
            from infra.clusters.existing import kubeconfig

            kubeconfig.ensure_named_by(stack_files.file(stack), lambda _: None)


def inspect(variables: Mapping[str, str], stack: str, outputs: Mapping[str, Any]) -> None:
    """Raises SetupError where objects of `stack` are missing or on their way out, or its model is not its run's."""
    about = "`pulumi up` has ended. A last look at the stack found:\n"
    try:
        with venv.program(environment.for_child(variables)):
            from infra import inspection
            from infra.config import from_file

            problems = inspection.inspect(from_file(stack_files.file(stack)), outputs, say)
    except SetupError as error:
        raise SetupError(f"{about}{error}") from None
    if problems:
        raise SetupError(about + "\n".join(f"problem: {each}" for each in problems))


def dependents(variables: Mapping[str, str], stack: str, own: list[str]) -> dict[str, Any]:
    """Others' objects that depend on what `stack` has made: `jobs`, and by namespace and claim. Raises SetupError.

    Parameters:
        own: titles of the stack's own objects.
    """
    with venv.program(environment.for_child(variables)):
        from infra import dependents

        return dependents.of_stack(stack_files.file(stack), own, say)


def keep_unfollowed(variables: Mapping[str, str], stack: str, jobs: list[dict[str, str]]) -> None:
    """Keep what is left of `jobs`, of which nobody has kept the end. A line tells what cannot be had."""
    if jobs:
        with step("what is left of jobs that nobody has followed"):
            try:
                with venv.program(environment.for_child(variables)):
                    from infra.config import from_file
                    from infra.run import unfollowed

                    unfollowed.keep(from_file(stack_files.file(stack)), jobs, say)
            except (SetupError, OSError) as error:
                say(f"their logs are not kept: {error}")


def remove_finished(variables: Mapping[str, str], stack: str, runs: list[dict[str, Any]]) -> None:
    """Delete the jobs of `runs` whose time has come and that no controller deletes. A line tells which."""
    if runs:
        with venv.program(environment.for_child(variables)):
            from infra.config import from_file
            from infra.run import finished

            finished.remove(from_file(stack_files.file(stack)), runs, say)


def remove_unfinished(variables: Mapping[str, str], stack: str, cluster: str) -> None:
    """Remove what a killed `make up` left of `cluster`. Raises SetupError for a finished one: no state told of it."""
    with venv.program(environment.for_child(variables)):
        from infra.clusters import selection

        selection.remove_unfinished(cluster, stack)


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

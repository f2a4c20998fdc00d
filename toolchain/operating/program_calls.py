"""Calls modules of the Pulumi program (infra/) in the virtual environment, without Pulumi."""

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
    """Build the trainer image of `stack` if the engine lacks it. Raises SetupError."""
    with venv.program(environment.for_child(variables)):
        from infra.config import from_file
        from infra.image import engine_image

        say(engine_image.built(from_file(stack_files.file(stack)).image))


def repair_cluster(variables: Mapping[str, str], stack: str) -> None:
    """Start stopped parts of the stack's own cluster, because Pulumi's refresh would fail without them.

    It starts nodes and registry, corrects the kubeconfig, and says what it did. Raises SetupError, with nothing
    replaced, if the cluster cannot be repaired, or if this clone did not create the cluster of that name.
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
    """Whether the cluster in `deployment` is proved to be gone, with its objects. Raises SetupError.

    Somebody else's cluster is never proved gone: an API server that does not answer proves nothing.
    """
    found = state.clusters(deployment)
    if not found:
        return False
    with venv.program(environment.for_child(variables)):
        from infra.clusters import selection

        return any(selection.is_lost(kind, props) for kind, props in found.items())


def release_volumes(variables: Mapping[str, str], stack: str, own: list[str]) -> None:
    """Make volumes usable again after an unfinished deletion. Raises SetupError if somebody else's pod uses one.

    Parameters:
        own: titles of the stack's own objects.
    """
    with venv.program(environment.for_child(variables)):
        from infra import release_volumes

        release_volumes.release(stack_files.file(stack), own, say)


def ensure_named_cluster(variables: Mapping[str, str], stack: str) -> None:
    """Raises SetupError if the cluster that answers is not the one that the stack file names, or if that is unknown."""
    if (told := environment.cluster_access(stack)) and told.is_named:
        with venv.program(environment.for_child(variables)):
            from infra.clusters.existing import kubeconfig

            kubeconfig.ensure_named_by(stack_files.file(stack), lambda _: None)


def inspect(variables: Mapping[str, str], stack: str, outputs: Mapping[str, Any]) -> None:
    """Raises SetupError if objects of `stack` are missing or being deleted, or if its model is of another run."""
    about = "`pulumi up` has ended. A last check of the stack found:\n"
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
    """Others' objects that depend on objects of `stack`, as `infra.dependents.users` returns them. Raises SetupError.

    Parameters:
        own: titles of the stack's own objects.
    """
    with venv.program(environment.for_child(variables)):
        from infra import dependents

        return dependents.of_stack(stack_files.file(stack), own, say)


def keep_unfollowed(variables: Mapping[str, str], stack: str, jobs: list[dict[str, str]]) -> None:
    """Keep the logs and records of `jobs` that nobody followed to the end. A line names what cannot be kept."""
    if jobs:
        with step("keeping logs of jobs that nobody followed"):
            try:
                with venv.program(environment.for_child(variables)):
                    from infra.config import from_file
                    from infra.run import unfollowed

                    unfollowed.keep(from_file(stack_files.file(stack)), jobs, say)
            except (SetupError, OSError) as error:
                say(f"the logs of these jobs are not kept: {error}")


def remove_finished(variables: Mapping[str, str], stack: str, runs: list[dict[str, Any]]) -> None:
    """Delete the finished jobs of `runs` whose time to live is over, if no controller does. A line names each job."""
    if runs:
        with venv.program(environment.for_child(variables)):
            from infra.config import from_file
            from infra.run import finished

            finished.remove(from_file(stack_files.file(stack)), runs, say)


def remove_unfinished(variables: Mapping[str, str], stack: str, cluster: str) -> None:
    """Remove what a killed `make up` left of `cluster`. Raises SetupError for a finished cluster without a state."""
    with venv.program(environment.for_child(variables)):
        from infra.clusters import selection

        selection.remove_unfinished(cluster, stack)


def watch(stack: str) -> int:
    """Show the progress of the jobs of `stack` until they end; 0 if all succeeded, 1 if one failed, 2 if unknown.

    This changes nothing in the cluster, and follows jobs that any client created. It takes no lock, so `make up` may
    run at the same time. Raises SetupError for a stack that does not exist.
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
        start_new_session=True,  # Ctrl-C goes to this process only
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

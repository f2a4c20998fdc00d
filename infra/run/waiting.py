"""Follows one PyTorchJob to its end."""

from __future__ import annotations

import time
from typing import Any

from infra.run import status
from infra.run.job_api import Run
from infra.run.log_follower import Follower


class RunFailedError(RuntimeError):
    """The training failed. The text has the failing pod's last lines."""


def wait(run: Run, rank0: str) -> dict[str, Any]:
    """Follow `run` until it succeeded, or was suspended as asked; its metrics and status.

    Raises RunFailedError within seconds of a failure, JobGoneError. `rank0`: the pod whose log tells the metrics.
    """
    follower = Follower(run, rank0)
    shown = ""
    for job in run.observations():
        now, message = status.condition(job)
        pods = run.pods()
        found = status.troubles(pods)
        text = "; ".join([f"{run.name}: {now}", *(str(each) for each in found)])
        if text != shown:
            run.show(text)
            shown = text
        if now in (status.SUCCEEDED, status.SUSPENDED):
            return {"jobStatus": now} | follower.finish()
        if now == status.FAILED:
            raise RunFailedError(_failure(run, message, pods, follower))
        _give_up(run, found)
        follower.ensure_started(pods)
    raise AssertionError("the job's observations do not end")


def _give_up(run: Run, found: list[status.Trouble]) -> None:
    """Raises RunFailedError for a pod that will not start."""
    now = time.monotonic()
    lasting = {f"{each.pod}": each for each in found if each.hopeless or each.reason in status.TROUBLED}
    run.trouble_since = {pod: run.trouble_since.get(pod, now) for pod in lasting}
    for pod, each in lasting.items():
        if each.hopeless or now - run.trouble_since[pod] > status.TROUBLED_S:
            raise RunFailedError(f"PyTorchJob {run.namespace}/{run.name} cannot run: {each}\n{_again(run)}")


def _failure(run: Run, message: str, pods: list[dict[str, Any]], follower: Follower) -> str:
    """The error's text: what the operator says, the failing container, its last lines, how to try again.

    The operator deletes the pods of a job that has failed for good; then what was followed of rank 0 has to do.
    """
    pod, container, previous = status.failed_container(pods) or (follower.pod, "pytorch", False)
    lines = run.last_lines(pod, container, previous)
    if not lines:
        pod, lines = follower.pod, list(follower.latest)
    told = [f"last lines of pod {pod}, container {container}:", *(f"    {line}" for line in lines)]
    return "\n".join([f"PyTorchJob {run.namespace}/{run.name} failed: {message}", *told, _again(run)])


def _again(run: Run) -> str:
    return (
        f"  fix: correct the cause; a changed job is replaced by the next `pulumi up`. To try the same job again: "
        f"kubectl -n {run.namespace} delete pytorchjob {run.name}, then `make up`"
    )

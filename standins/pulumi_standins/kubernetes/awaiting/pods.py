"""Pods: their readiness, and the problems that prevent it."""

from __future__ import annotations

from pulumi_standins.kubernetes.awaiting.snapshot import Snapshot, Verdict, condition, qualified_name
from pulumi_standins.kubernetes.objects import nested
from pulumi_standins.kubernetes.values import Object

# Waiting reasons of a normal start; with another reason a container cannot start.
_NORMAL = {"ContainerCreating", "PodInitializing"}
_PULL_PREFIX = "rpc error: code = Unknown desc = Error response from daemon: "


def judge(snapshot: Snapshot) -> Verdict:
    """A pod is ready when scheduled, initialised and ready; a succeeded pod counts as ready."""
    pod = snapshot.obj
    for name, verb in (("PodScheduled", "scheduled"), ("Initialized", "initialized"), ("Ready", "ready")):
        found = condition(pod, name)
        has_succeeded = name == "Ready" and bool(found) and nested(pod, "status", "phase") == "Succeeded"
        if found.get("status") != "True" and not has_succeeded:
            lines = problems(pod)
            status = f'Waiting for Pod "{snapshot.qualified_name}" to be {verb}'
            return Verdict(status=f"{status} ({describe(pod)})", warnings=lines, findings=lines)
    return Verdict(is_ready=True)


def problems(pod: Object) -> list[str]:
    """One line about the problem of a pod that is not ready; empty during a normal start."""
    if nested(pod, "status", "phase") == "Succeeded":
        return []
    scheduled = condition(pod, "PodScheduled")
    if scheduled and scheduled.get("status") != "True":
        text = scheduled.get("message")
        return [f"[Pod {qualified_name(pod)}]: [{scheduled.get('reason')}] {text}"] if text else []
    for name in ("Initialized", "Ready"):
        found = condition(pod, name)
        if found and found.get("status") != "True":
            errors = "\n".join(_container_errors(pod))
            text = found.get("message", "") if found.get("reason") else ""
            return [f"[Pod {qualified_name(pod)}]: {text}{errors}"] if text or errors else []
    return []


def describe(pod: Object) -> str:
    """The pod's state as `kubectl get pods` shows it, and the container that it waits for."""
    status = pod.get("status") or {}
    if nested(pod, "metadata", "deletionTimestamp"):
        return "Terminating"
    started = status.get("initContainerStatuses") or []
    total = len(nested(pod, "spec", "initContainers", default=[]) or [])
    for index, container in enumerate(started):
        state = container.get("state") or {}
        ended = state.get("terminated")
        if ended and ended.get("exitCode") == 0:
            continue
        return f"Init:{_reason(state) or f'{index}/{total}'}, waiting for {container.get('name')}"
    for container in status.get("containerStatuses") or []:
        if not container.get("ready") and (reason := _reason(container.get("state") or {})):
            return reason
    if status.get("phase") == "Pending" and condition(pod, "PodScheduled").get("status") == "False":
        return f"Pending, {condition(pod, 'PodScheduled').get('reason', 'not scheduled')}"
    return str(status.get("phase") or "Pending")


def _reason(state: Object) -> str:
    waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
    if waiting.get("reason") and waiting["reason"] != "PodInitializing":
        return str(waiting["reason"])
    if ended:
        return str(ended.get("reason") or f"ExitCode:{ended.get('exitCode')}")
    return ""


def _container_errors(pod: Object) -> list[str]:
    status = pod.get("status") or {}
    found: list[str] = []
    for container in (status.get("initContainerStatuses") or []) + (status.get("containerStatuses") or []):
        state = container.get("state") or {}
        is_done = nested(state, "terminated", "exitCode") == 0 and container in (
            status.get("initContainerStatuses") or []
        )
        if not container.get("ready") and not is_done:
            found += _container_error(container.get("name", ""), state, container.get("lastState") or {})
    return found


def _container_error(name: str, state: Object, last: Object) -> list[str]:
    found = []
    waiting = state.get("waiting")
    if waiting and waiting.get("reason") not in _NORMAL:
        found.append(f"[{waiting.get('reason')}] {_trimmed(waiting.get('message', ''))}")
    ended = state.get("terminated")
    if ended and ended.get("reason"):
        if ended.get("message"):
            found.append(f"[{ended['reason']}] {_trimmed(ended['message'])}")
        else:
            found.append(f'container "{name}" completed with exit code {ended.get("exitCode")}')
    before = last.get("terminated")
    if before:
        found.append(
            f'container "{name}" terminated at {before.get("finishedAt")} '
            f"({before.get('reason')}: exit code {before.get('exitCode')})"
        )
        if before.get("message"):
            found.append(before["message"])
    return found


def _trimmed(message: str) -> str:
    return message.removeprefix(_PULL_PREFIX).removesuffix(": manifest unknown")

"""Decides which scheduler starts the replicas of a job together, also in a shared cluster."""

from __future__ import annotations

from infra.clusters.discovery import GANG_FLAG, ClusterContents
from infra.clusters.selection import job_key
from infra.config import ConfigError, Stack
from infra.config.errors import paragraph
from infra.config.operator import Gang, Install, OperatorApi
from infra.objects.gangs import SCHEDULER

KEY = "trainstack:operator.gang"
ASKED = f"`operator: {{gang: {Gang.SCHEDULER_PLUGINS}}}`"
BY_HAND = (
    f"install a gang scheduler, and an operator with {GANG_FLAG.rstrip('=')}, yourself, with `install: never`"
)


def ensure_heeded(stack: Stack, found: ClusterContents) -> None:
    """Raises ConfigError for a job with a schedulingPolicy that no scheduler follows."""
    v1 = stack.operator.api is OperatorApi.V1
    if stack.operator.gang is not Gang.NONE or found.problem or (v1 and found.gang_scheduler):
        return
    for job in stack.jobs:
        if job.run_policy.scheduling_policy:
            key = f"trainstack:{job_key(stack, job.name)}.runPolicy.schedulingPolicy"
            allowed = (
                "nothing where the training-operator has no gang scheduler: it would ignore the key"
                if v1
                else f"nothing where operator.gang is {Gang.NONE}: Trainer would ignore the key"
            )
            fix = f"write {ASKED}; or remove it" + (f"; or {BY_HAND}" if v1 else "")
            raise ConfigError(paragraph(stack.file, key, "(present)", allowed, fix))


def scheduler(stack: Stack, found: ClusterContents, operator: bool) -> str:
    """The scheduler that the stack's operator and its jobs' pods have to name; empty where they name none.

    Raises ConfigError where `operator.gang` asks for what cannot be done.

    Parameters:
        operator: whether the stack installs the operator. Somebody else's training-operator knows its own scheduler.
    """
    if stack.operator.gang is Gang.NONE:
        return ""
    if stack.operator.api is OperatorApi.V1 and not operator:
        if not (found.problem or found.gang_scheduler):
            allowed = (
                f"{Gang.NONE}: this cluster's training-operator is somebody else's, and has no {GANG_FLAG}…"
            )
            raise _refused(
                stack, allowed, f"write `gang: {Gang.NONE}`, or ask its owner for a gang scheduler"
            )
        return ""
    if not found.schedulers and stack.operator.install is Install.NEVER and not found.problem:
        allowed = f"{Gang.NONE} where operator.install is never and this cluster has no scheduler-plugins"
        raise _refused(stack, allowed, f"write `install: {Install.AUTO}`")
    return found.schedulers[0] if found.schedulers else SCHEDULER


def _refused(stack: Stack, allowed: str, fix: str) -> ConfigError:
    return ConfigError(paragraph(stack.file, KEY, stack.operator.gang.value, allowed, fix))

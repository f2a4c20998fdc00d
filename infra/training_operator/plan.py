"""Which parts of the operator a stack installs in a cluster that others use, too."""

from __future__ import annotations

from dataclasses import dataclass

from infra.clusters.discovery import GANG_FLAG, ClusterContents
from infra.clusters.selection import job_key
from infra.config import ConfigError, Stack
from infra.config.errors import paragraph
from infra.config.operator import Gang, Install, OperatorApi
from infra.objects.job_kinds import GANG_SCHEDULER
from infra.training_operator import throughput

GANG_KEY = "trainstack:operator.gang"
ASKED = f"`operator: {{gang: {Gang.SCHEDULER_PLUGINS}}}`"
BY_HAND = (
    f"install a gang scheduler, and an operator with {GANG_FLAG.rstrip('=')}, yourself, with `install: never`"
)


@dataclass(frozen=True)
class Plan:
    """What the stack registers.

    Parameters:
        crd: whether the CRDs of the stack's kind of job.
        operator: whether the operator with its rights and its webhook.
        namespaces: the names of the namespaces that are missing.
        beneath: whether that includes JobSet, on which TrainJobs run.
        scheduler: the scheduler by which the jobs' pods, and the stack's operator, ask for gangs; empty where nobody
            is to, or somebody else's operator knows its own.
        installs_scheduler: whether that is the stack's to install.
        kept_definitions: the scheduler's CRDs that somebody else has brought.
    """

    crd: bool
    operator: bool
    namespaces: tuple[str, ...]
    beneath: bool = True
    scheduler: str = ""
    installs_scheduler: bool = False
    kept_definitions: frozenset[str] = frozenset()


def plan(stack: Stack, found: ClusterContents) -> Plan:
    """What `stack` has to install beside what was `found` in its cluster; what was there before stays as it is.

    In a cluster that could not be asked, nothing is taken to be there. Raises ConfigError where section `operator`
    asks for what cannot be done.
    """
    install = stack.operator.install
    if install is Install.ALWAYS and (found.crd or found.operator):
        raise _refused(stack, "auto: this cluster has an operator of somebody else's", Install.AUTO)
    if install is Install.NEVER and not found.problem and not found.crd:
        raise _refused(stack, "auto or always: this cluster has no training-operator", Install.AUTO)
    ensure_policies_heeded(stack, found)
    installs = install is not Install.NEVER
    operator = installs and not found.operator
    throughput.ensure_heeded(stack, operator)
    scheduler = gang_scheduler(stack, found, operator)
    brings = installs and bool(scheduler) and scheduler not in found.schedulers
    wanted = {stack.cluster.namespace, *([stack.operator.namespace] if operator or brings else [])}
    return Plan(
        crd=installs and not found.crd,
        operator=operator,
        namespaces=tuple(sorted(wanted - found.namespaces)),
        beneath=not found.beneath,
        scheduler=scheduler,
        installs_scheduler=brings,
        kept_definitions=found.gang_definitions if brings else frozenset(),
    )


def _refused(stack: Stack, allowed: str, instead: Install) -> ConfigError:
    key, value = "trainstack:operator.install", stack.operator.install.value
    return ConfigError(paragraph(stack.file, key, value, allowed, f"write `install: {instead.value}`"))


def ensure_policies_heeded(stack: Stack, found: ClusterContents) -> None:
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


def gang_scheduler(stack: Stack, found: ClusterContents, operator: bool) -> str:
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
            raise _gang_refused(
                stack, allowed, f"write `gang: {Gang.NONE}`, or ask its owner for a gang scheduler"
            )
        return ""
    if not found.schedulers and stack.operator.install is Install.NEVER and not found.problem:
        allowed = f"{Gang.NONE} where operator.install is never and this cluster has no scheduler-plugins"
        raise _gang_refused(stack, allowed, f"write `install: {Install.AUTO}`")
    return found.schedulers[0] if found.schedulers else GANG_SCHEDULER


def _gang_refused(stack: Stack, allowed: str, fix: str) -> ConfigError:
    return ConfigError(paragraph(stack.file, GANG_KEY, stack.operator.gang.value, allowed, fix))

"""Which parts of the operator a stack installs in a cluster that others use, too."""

from __future__ import annotations

from dataclasses import dataclass

from infra.clusters.discovery import ClusterContents
from infra.config import ConfigError, Stack
from infra.config.errors import paragraph
from infra.config.operator import Install
from infra.training_operator import gang_scheduling, throughput


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
    gang_scheduling.ensure_heeded(stack, found)
    installs = install is not Install.NEVER
    operator = installs and not found.operator
    throughput.ensure_heeded(stack, operator)
    scheduler = gang_scheduling.scheduler(stack, found, operator)
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

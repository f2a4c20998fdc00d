"""Which parts of the operator a stack installs in a cluster that others use, too."""

from __future__ import annotations

from dataclasses import dataclass

from infra.clusters.discovery import ClusterContents
from infra.clusters.selection import job_key
from infra.config import ConfigError, Stack
from infra.config.errors import paragraph
from infra.config.operator import Install


@dataclass(frozen=True)
class Plan:
    """What the stack registers.

    Parameters:
        crd: whether the CRDs of the stack's kind of job.
        operator: whether the operator with its rights and its webhook.
        namespaces: the names of the namespaces that are missing.
        beneath: whether that includes JobSet, on which TrainJobs run.
    """

    crd: bool
    operator: bool
    namespaces: tuple[str, ...]
    beneath: bool = True


def plan(stack: Stack, found: ClusterContents) -> Plan:
    """What `stack` has to install beside what was `found` in its cluster; what was there before stays as it is.

    In a cluster that could not be asked, nothing is taken to be there. Raises ConfigError where `operator.install`
    asks for what cannot be done.
    """
    install = stack.operator.install
    if install is Install.ALWAYS and (found.crd or found.operator):
        raise _refused(stack, "auto: this cluster has an operator of somebody else's", Install.AUTO)
    if install is Install.NEVER and not found.problem and not found.crd:
        raise _refused(stack, "auto or always: this cluster has no training-operator", Install.AUTO)
    ensure_gangs(stack, found)
    installs = install is not Install.NEVER
    operator = installs and not found.operator
    wanted = {stack.cluster.namespace, *([stack.operator.namespace] if operator else [])}
    return Plan(
        crd=installs and not found.crd,
        operator=operator,
        namespaces=tuple(sorted(wanted - found.namespaces)),
        beneath=not found.beneath,
    )


def ensure_gangs(stack: Stack, found: ClusterContents) -> None:
    """Raises ConfigError for a job with a schedulingPolicy that the operator would ignore, as ours does."""
    if found.problem or found.gang_scheduler:
        return
    for job in stack.jobs:
        if job.run_policy.scheduling_policy:
            key = f"trainstack:{job_key(stack, job.name)}.runPolicy.schedulingPolicy"
            allowed = "nothing where the training-operator has no gang scheduler: it would ignore the key"
            fix = (
                "remove it; or install a gang scheduler and an operator with --gang-scheduler-name yourself, "
                "with `operator: {install: never}`"
            )
            raise ConfigError(paragraph(stack.file, key, "(present)", allowed, fix))


def _refused(stack: Stack, allowed: str, instead: Install) -> ConfigError:
    key, value = "trainstack:operator.install", stack.operator.install.value
    return ConfigError(paragraph(stack.file, key, value, allowed, f"write `install: {instead.value}`"))

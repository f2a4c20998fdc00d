"""Which controllers a stack installs in a cluster that others use, too."""

from __future__ import annotations

from dataclasses import dataclass

from infra.clusters.discovery import GANG_FLAG, ClusterContents
from infra.clusters.selection import job_key
from infra.config import ConfigError, Stack
from infra.config.errors import paragraph
from infra.config.operator import KUEUE_NAMESPACE, Install, OperatorApi, Queueing
from infra.training_operator.patches import throughput

INSTEAD = "take a queue of Kueue's, which starts a job whole or not at all: docs/kueue.md"


@dataclass(frozen=True)
class Plan:
    """What the stack registers.

    Parameters:
        crd: whether the CRDs of the stack's kind of job.
        operator: whether the operator with its rights and its webhook.
        namespaces: the names of the namespaces that are missing.
        beneath: whether that includes JobSet, on which TrainJobs run.
        kueue_crds: whether Kueue's definitions.
        kueue: whether Kueue with its rights and its webhooks.
        kept: titles of flavors and priority classes that somebody else has made.
    """

    crd: bool
    operator: bool
    namespaces: tuple[str, ...]
    beneath: bool = True
    kueue_crds: bool = False
    kueue: bool = False
    kept: frozenset[str] = frozenset()


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
    ensure_throughput_heeded(stack, operator)
    wants_kueue = stack.operator.queue is Queueing.KUEUE
    if wants_kueue and not (installs or found.kueue or found.problem):
        allowed = f"{Queueing.NONE} where operator.install is never and this cluster has no Kueue"
        fix = f"write `install: {Install.AUTO}`, or have Kueue installed"
        value = stack.operator.queue.value
        raise ConfigError(paragraph(stack.file, "trainstack:operator.queue", value, allowed, fix))
    kueue = installs and wants_kueue and not found.kueue
    wanted = {
        stack.cluster.namespace,
        *([stack.operator.namespace] if operator else []),
        *([KUEUE_NAMESPACE] if kueue else []),
    }
    return Plan(
        crd=installs and not found.crd,
        operator=operator,
        namespaces=tuple(sorted(wanted - found.namespaces)),
        beneath=not found.beneath,
        kueue_crds=kueue and not found.kueue_crds,
        kueue=kueue,
        kept=found.shared,
    )


def _refused(stack: Stack, allowed: str, instead: Install) -> ConfigError:
    key, value = "trainstack:operator.install", stack.operator.install.value
    return ConfigError(paragraph(stack.file, key, value, allowed, f"write `install: {instead.value}`"))


def ensure_throughput_heeded(stack: Stack, operator: bool) -> None:
    """Raises ConfigError for a key that would have no effect.

    Parameters:
        operator: whether the stack installs the operator.
    """
    for key, value in ({} if operator else throughput(stack.operator)).items():
        allowed = "nothing where the operator is somebody else's, which the stack never changes"
        fix = f"remove it, or write `install: {Install.ALWAYS}` where the cluster has no operator"
        raise ConfigError(paragraph(stack.file, f"trainstack:operator.{key}", value, allowed, fix))


def ensure_policies_heeded(stack: Stack, found: ClusterContents) -> None:
    """Raises ConfigError for a schedulingPolicy of a PyTorchJob that no scheduler follows."""
    if stack.operator.api is OperatorApi.V2 or found.problem or found.gang_scheduler:
        return
    for job in stack.jobs:
        if job.run_policy.scheduling_policy:
            key = f"trainstack:{job_key(stack, job.name)}.runPolicy.schedulingPolicy"
            allowed = f"nothing where the training-operator has no {GANG_FLAG}…: it would ignore the key"
            fix = f"remove it, and {INSTEAD}; or install both yourself, with `install: never`"
            raise ConfigError(paragraph(stack.file, key, "(present)", allowed, fix))

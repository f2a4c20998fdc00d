"""Which controllers a stack installs in a cluster that others use, too."""

from __future__ import annotations

from dataclasses import dataclass

from infra.clusters.discovery import GANG_FLAG, ClusterContents
from infra.config import ConfigError, Stack
from infra.config.errors import not_allowed
from infra.config.operator import KUEUE_NAMESPACE, Install, OperatorApi, Queueing
from infra.objects.job_kinds import OF_API
from infra.training_operator.patches import throughput

INSTEAD = "use a Kueue queue, which starts all replicas of a job or none: docs/kueue.md"


@dataclass(frozen=True)
class Plan:
    """What the stack registers.

    Parameters:
        crd: register the CRDs of the stack's kind of job.
        operator: register the operator with its rights and its webhook.
        namespaces: names of the missing namespaces.
        beneath: register JobSet, too, on which TrainJobs run.
        kueue_crds: register Kueue's definitions.
        kueue: register Kueue with its rights and its webhooks.
        kept: titles of flavors and priority classes that somebody else has created.
    """

    crd: bool
    operator: bool
    namespaces: tuple[str, ...]
    beneath: bool = True
    kueue_crds: bool = False
    kueue: bool = False
    kept: frozenset[str] = frozenset()


def plan(stack: Stack, found: ClusterContents) -> Plan:
    """The parts that `stack` has to install. Existing parts (`found`) stay unchanged.

    A cluster that could not be asked is assumed to be empty. Raises ConfigError if section `operator` asks for
    something impossible.
    """
    install = stack.operator.install
    if install is Install.ALWAYS and (found.crd or found.operator):
        raise _refused(stack, "auto: this cluster has somebody else's operator", Install.AUTO)
    kind = OF_API[stack.operator.api].kind
    if install is Install.NEVER and not found.problem and not found.crd:
        raise _refused(stack, f"auto or always: this cluster has no operator of {kind}s", Install.AUTO)
    ensure_policies_heeded(stack, found)
    installs = install is not Install.NEVER
    operator = installs and not found.operator
    ensure_throughput_heeded(stack, operator)
    wants_kueue = stack.operator.queue is Queueing.KUEUE
    if wants_kueue and not (installs or found.kueue or found.problem):
        allowed = f"{Queueing.NONE}: operator.install is never, and this cluster has no Kueue"
        fix = f"write `install: {Install.AUTO}`, or ask an administrator to install Kueue"
        value = stack.operator.queue.value
        raise not_allowed(stack.file, "trainstack:operator.queue", value, allowed, fix)
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
    return not_allowed(stack.file, key, value, allowed, f"write `install: {instead.value}`")


def ensure_throughput_heeded(stack: Stack, operator: bool) -> None:
    """Raises ConfigError for a key of the operator's throughput that would have no effect.

    Parameters:
        operator: whether the stack installs the operator.
    """
    for key, value in ({} if operator else throughput(stack.operator)).items():
        allowed = "no value: the operator is somebody else's, and the stack never changes it"
        fix = f"remove the key; or, if the cluster has no operator, write `install: {Install.ALWAYS}`"
        raise not_allowed(stack.file, f"trainstack:operator.{key}", value, allowed, fix)


def ensure_policies_heeded(stack: Stack, found: ClusterContents) -> None:
    """Raises ConfigError for a schedulingPolicy of a PyTorchJob that no scheduler follows."""
    if stack.operator.api is OperatorApi.V2 or found.problem or found.gang_scheduler:
        return
    for place, job in enumerate(stack.jobs):
        if job.run_policy.scheduling_policy:
            key = stack.key(place, "runPolicy.schedulingPolicy")
            allowed = f"no value: the training-operator has no {GANG_FLAG}… and would ignore the key"
            fix = f"remove the key and {INSTEAD}; or install operator and scheduler yourself, with `install: never`"
            raise not_allowed(stack.file, key, "(present)", allowed, fix)

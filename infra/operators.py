"""The operator of the API that a stack asks for, the training-operator or Kubeflow Trainer, and who schedules gangs."""

from __future__ import annotations

from dataclasses import replace

import pulumi

from infra.clusters.cluster import Cluster
from infra.config import Stack
from infra.config.operator import OperatorApi
from infra.gang_scheduler import component as gang_scheduler
from infra.objects.manifest import Manifest
from infra.trainer_controller import component as trainer_controller
from infra.training_operator import component as training_operator
from infra.training_operator.plan import Plan


def manifests(stack: Stack, plan: Plan) -> list[Manifest]:
    """The objects that `plan` registers, the scheduler of gangs first, of each the CRDs first."""
    wanted = trainer_controller if stack.operator.api is OperatorApi.V2 else training_operator
    return [*gang_scheduler.manifests(stack, plan), *wanted.manifests(stack, plan)]


def provide(
    stack: Stack, cluster: Cluster, plan: Plan, namespaces: list[pulumi.Resource]
) -> training_operator.Operator:
    """Register them.

    Parameters:
        namespaces: the stack's own namespaces, which come first.
    """
    first = namespaces
    if plan.installs_scheduler:
        # An operator looks only at its start whether there are PodGroups to watch.
        whole = replace(plan, crd=True, operator=True)
        first = gang_scheduler.Scheduler(
            stack=stack, cluster=cluster, plan=whole, namespaces=namespaces
        ).ready
    made = trainer_controller.Trainer if stack.operator.api is OperatorApi.V2 else training_operator.Operator
    return made(stack=stack, cluster=cluster, plan=plan, namespaces=first)

"""The operator of the API that a stack asks for: the training-operator, or Kubeflow Trainer with JobSet."""

from __future__ import annotations

import pulumi

from infra.clusters.cluster import Cluster
from infra.config import Stack
from infra.config.operator import OperatorApi
from infra.objects.manifest import Manifest
from infra.trainer_controller import component as trainer_controller
from infra.training_operator import component as training_operator
from infra.training_operator.plan import Plan


def manifests(stack: Stack, plan: Plan) -> list[Manifest]:
    """The objects that `plan` registers, CRDs first. Raises CommandError where upstream's cannot be read."""
    if stack.operator.api is OperatorApi.V2:
        return trainer_controller.manifests(stack, plan)
    return training_operator.manifests(stack, plan)


def provide(
    stack: Stack, cluster: Cluster, plan: Plan, namespaces: list[pulumi.Resource]
) -> training_operator.Operator:
    """Register them.

    Parameters:
        namespaces: the stack's own namespaces, which come first.
    """
    made = trainer_controller.Trainer if stack.operator.api is OperatorApi.V2 else training_operator.Operator
    return made(stack=stack, cluster=cluster, plan=plan, namespaces=namespaces)

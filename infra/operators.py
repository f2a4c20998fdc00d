"""The operator of the API that a stack asks for, the training-operator or Kubeflow Trainer, and who schedules gangs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pulumi

from infra import agreed
from infra.clusters.cluster import Cluster
from infra.config import Stack
from infra.config.operator import OperatorApi
from infra.gang_scheduler import patches as scheduler
from infra.objects import job_kinds
from infra.objects.manifest import Manifest
from infra.trainer_controller import patches as trainer
from infra.training_operator import component as training_operator
from infra.training_operator.component import Operator
from infra.training_operator.patches import CRD_KIND
from infra.training_operator.plan import Plan
from infra.training_operator.webhook import Webhook
from infra.upstream import vendored

# Deployment -> the variable that names its image in this machine's engine.
SCHEDULER_IMAGES = {
    job_kinds.GANG_SCHEDULER: agreed.SCHEDULER_IMAGE,
    scheduler.CONTROLLER: agreed.SCHEDULER_CONTROLLER_IMAGE,
}
TRAINER_IMAGES = {trainer.TRAINER: agreed.TRAINER_IMAGE, trainer.JOBSET: agreed.JOBSET_IMAGE}


def manifests(stack: Stack, plan: Plan) -> list[Manifest]:
    """The objects that `plan` registers, the scheduler of gangs first, of each the CRDs first."""
    wanted = trainer_manifests if stack.operator.api is OperatorApi.V2 else training_operator.manifests
    return [*scheduler_manifests(stack, plan), *wanted(stack, plan)]


def scheduler_manifests(stack: Stack, plan: Plan) -> list[Manifest]:
    """The scheduler's objects that `plan` registers, the CRDs first; a review renders the same.

    The Deployments have the images that upstream publishes.

    Parameters:
        stack: for its name, which the labels have, and the operator's namespace.
    """
    if not plan.installs_scheduler:
        return []
    found, namespace = vendored.objects(scheduler.PROJECT), stack.operator.namespace
    objects = scheduler.patched(found, scheduler.profile(), stack.name, namespace)
    return [each for each in objects if each["metadata"]["name"] not in plan.kept_definitions]


def trainer_manifests(stack: Stack, plan: Plan) -> list[Manifest]:
    """The controllers' objects that `plan` registers, the CRDs first; a review renders the same.

    The Deployments have the images that upstream publishes.

    Parameters:
        stack: for its name, which the labels have, and section `operator`.
    """
    if not (plan.crd or plan.operator):
        return []
    beneath = vendored.objects("jobset") if plan.beneath else []
    reports = stack.operator.takes_reports(stack.cluster)
    objects = trainer.patched(
        [*beneath, *vendored.objects("trainer")], stack.name, stack.operator, plan.scheduler, reports
    )
    return [each for each in objects if (plan.crd if each["kind"] == CRD_KIND else plan.operator)]


class Scheduler(Operator):
    """The second scheduler, ready to take gangs. As Operator."""

    part = "scheduler"
    images = SCHEDULER_IMAGES

    def _manifests(self, plan: Plan) -> list[Manifest]:
        return scheduler_manifests(self.stack, plan)

    def _operator(self, objects: list[Manifest], environment: Mapping[str, str]) -> pulumi.Resource:
        """Register scheduler and controller; the last of what is there once both are."""
        _, programs = self._programs(objects, environment)
        return programs[-1]


class Trainer(Operator):
    """The controllers of TrainJobs and JobSets, ready to take TrainJobs. As Operator."""

    images = TRAINER_IMAGES

    def _manifests(self, plan: Plan) -> list[Manifest]:
        return trainer_manifests(self.stack, plan)

    def _operator(self, objects: list[Manifest], environment: Mapping[str, str]) -> pulumi.Resource:
        """Register both controllers. Returns the resource that is created once their webhooks answer."""
        others, deployments = self._programs(objects, environment)
        uids = pulumi.Output.all(*(each.uid for each in deployments))
        props = {
            "kubeconfigPath": self.cluster.kubeconfig_path,
            "context": self.cluster.context,
            "namespace": self.stack.operator.namespace,
            "operator": uids.apply(" ".join),
            "api": self.stack.operator.api.value,
        }
        return Webhook(f"{self.stack.name}-webhook", props, self.cluster.bound(self, [*deployments, *others]))


def provide(stack: Stack, cluster: Cluster, plan: Plan, namespaces: list[pulumi.Resource]) -> Operator:
    """Register them.

    Parameters:
        namespaces: the stack's own namespaces, which come first.
    """
    first = namespaces
    if plan.installs_scheduler:
        # An operator looks only at its start whether there are PodGroups to watch.
        whole = replace(plan, crd=True, operator=True)
        first = Scheduler(stack=stack, cluster=cluster, plan=whole, namespaces=namespaces).ready
    made = Trainer if stack.operator.api is OperatorApi.V2 else Operator
    return made(stack=stack, cluster=cluster, plan=plan, namespaces=first)

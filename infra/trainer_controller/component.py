"""The controllers of TrainJobs and JobSets in a cluster, ready to take TrainJobs."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi

from infra.config import Stack
from infra.objects.manifest import Manifest
from infra.trainer_controller import patches
from infra.training_operator.component import Operator
from infra.training_operator.patches import CRD_KIND
from infra.training_operator.plan import Plan
from infra.training_operator.webhook import Webhook
from infra.upstream import vendored

# Deployment -> the variable that names its image in this machine's engine.
IMAGES = {patches.TRAINER: "TRAINSTACK_TRAINER_IMAGE", patches.JOBSET: "TRAINSTACK_JOBSET_IMAGE"}


def manifests(stack: Stack, plan: Plan) -> list[Manifest]:
    """The controllers' objects that `plan` registers, the CRDs first; a review renders the same.

    The Deployments have the images that upstream publishes.

    Parameters:
        stack: for its name, which the labels have, and section `operator`.
    """
    if not (plan.crd or plan.operator):
        return []
    beneath = vendored.objects("jobset") if plan.beneath else []
    objects = patches.patched(
        [*beneath, *vendored.objects("trainer")], stack.name, stack.operator, plan.scheduler
    )
    return [each for each in objects if (plan.crd if each["kind"] == CRD_KIND else plan.operator)]


class Trainer(Operator):
    """As Operator: upstream's objects, patched, one resource each."""

    images = IMAGES

    def _manifests(self, plan: Plan) -> list[Manifest]:
        return manifests(self.stack, plan)

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

"""The second scheduler in a cluster, ready to take gangs."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi

from infra.config import Stack
from infra.gang_scheduler import patches
from infra.objects import gangs
from infra.objects.manifest import Manifest
from infra.training_operator.component import Operator
from infra.training_operator.plan import Plan
from infra.upstream import vendored

# Deployment -> the variable that names its image in this machine's engine.
IMAGES = {
    gangs.SCHEDULER: "TRAINSTACK_SCHEDULER_IMAGE",
    patches.CONTROLLER: "TRAINSTACK_SCHEDULER_CONTROLLER_IMAGE",
}


def manifests(stack: Stack, plan: Plan) -> list[Manifest]:
    """The scheduler's objects that `plan` registers, the CRDs first; a review renders the same.

    The Deployments have the images that upstream publishes.

    Parameters:
        stack: for its name, which the labels have, and the operator's namespace.
    """
    if not plan.installs_scheduler:
        return []
    found, namespace = vendored.objects(patches.PROJECT), stack.operator.namespace
    objects = patches.patched(found, patches.profile(), stack.name, namespace)
    return [each for each in objects if each["metadata"]["name"] not in plan.kept_definitions]


class Scheduler(Operator):
    """As Operator: upstream's objects, patched, one resource each."""

    part = "scheduler"
    images = IMAGES

    def _manifests(self, plan: Plan) -> list[Manifest]:
        return manifests(self.stack, plan)

    def _operator(self, objects: list[Manifest], environment: Mapping[str, str]) -> pulumi.Resource:
        """Register scheduler and controller; the last of what is there once both are."""
        _, programs = self._programs(objects, environment)
        return programs[-1]

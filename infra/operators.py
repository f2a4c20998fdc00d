"""The controllers that a stack installs: those of its API, and Kueue. One table, and one component class for all."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pulumi

from infra import agreed
from infra.clusters.cluster import Cluster
from infra.config import Stack
from infra.config.operator import OperatorApi, Queueing
from infra.image.providers import RegistryImage
from infra.kueue import patches as kueue
from infra.kueue import quota as quotas
from infra.objects.job_kinds import KUEUE
from infra.objects.manifest import Manifest, Object, with_image
from infra.trainer_controller import patches as trainer
from infra.training_operator import patches as training_operator
from infra.training_operator.patches import CRD_KIND
from infra.training_operator.plan import Plan
from infra.training_operator.webhook import Webhook
from infra.upstream import vendored

OPERATOR, QUEUE, QUOTA = PARTS = ("operator", "queue", "quota")
"""The controllers of the stack's API, Kueue, and the objects of `cluster.queue`; each is a phase of the plan."""
# Fields that controllers write into their own objects.
FILLED_IN = {
    "ValidatingWebhookConfiguration": ["webhooks[*].clientConfig.caBundle"],
    "MutatingWebhookConfiguration": ["webhooks[*].clientConfig.caBundle"],
    "Secret": ["data"],
}
CONVERSION = "spec.conversion.webhook.clientConfig.caBundle"
"""As FILLED_IN, for a definition with a webhook that converts its versions."""


@dataclass(frozen=True)
class Controllers:
    """Controllers that are installed together.

    Parameters:
        kind: the component's kind, by which `make down` finds the objects that others may use.
        part: the end of the component's name.
        objects: takes a stack and a plan, returns upstream's objects, patched. The plan says whether JobSet is needed.
        images: name of a pushed image -> the variable that names it in this machine's engine, and the image that it
            replaces in the Deployment's image and arguments.
        wait: name and `probes` of the resource that is created once the webhooks answer.
    """

    kind: str
    part: str
    objects: Callable[[Stack, Plan], list[Manifest]]
    images: Mapping[str, tuple[str, str]]
    wait: tuple[str, str]


def _of_v1(stack: Stack, _: Plan) -> list[Manifest]:
    place = (stack.operator.namespace, training_operator.throughput_flags(stack.operator))
    found = vendored.objects(training_operator.NAME)
    return training_operator.patched(found, stack.name, *place)


def _of_v2(stack: Stack, planned: Plan) -> list[Manifest]:
    beneath = vendored.objects("jobset") if planned.beneath else []
    reports = stack.operator.takes_reports(stack.cluster)
    return trainer.patched([*beneath, *vendored.objects("trainer")], stack.name, stack.operator, reports)


CONTROLLERS = {
    OperatorApi.V1: Controllers(
        "Operator",
        OPERATOR,
        _of_v1,
        {
            "operator": (agreed.OPERATOR_IMAGE, training_operator.IMAGE),
            "init": (agreed.INIT_IMAGE, training_operator.INIT_IMAGE),
        },
        ("webhook", OperatorApi.V1),
    ),
    OperatorApi.V2: Controllers(
        "Operator",
        OPERATOR,
        _of_v2,
        {
            trainer.TRAINER: (agreed.TRAINER_IMAGE, trainer.IMAGES[trainer.TRAINER]),
            trainer.JOBSET: (agreed.JOBSET_IMAGE, trainer.IMAGES[trainer.JOBSET]),
        },
        ("webhook", OperatorApi.V2),
    ),
}
QUEUES = Controllers(
    "Queue",
    QUEUE,
    lambda stack, _: kueue.patched(vendored.objects(kueue.PROJECT), stack.name, stack.operator.api),
    {kueue.CONTROLLER: (agreed.KUEUE_IMAGE, kueue.IMAGE)},
    ("queue-webhook", KUEUE),
)


def parts(stack: Stack, planned: Plan) -> dict[str, list[Manifest]]:
    """Each part of PARTS -> its objects that `planned` registers, CRDs first.

    The Deployments have the images that upstream publishes. A review renders the same.
    """
    row = CONTROLLERS[stack.operator.api]
    return {
        OPERATOR: installed(row, stack, planned, planned.crd, planned.operator),
        QUEUE: installed(QUEUES, stack, planned, planned.kueue_crds, planned.kueue),
        QUOTA: quotas.manifests(stack, planned.kept),
    }


def manifests(stack: Stack, planned: Plan) -> list[Manifest]:
    """The objects of all parts."""
    return [each for objects in parts(stack, planned).values() for each in objects]


def installed(
    row: Controllers, stack: Stack, planned: Plan, definitions: bool, programs: bool
) -> list[Manifest]:
    """The objects of `row`: only the definitions, only the programs with everything that they need, both, or none."""
    if not (definitions or programs):
        return []
    objects = row.objects(stack, planned)
    return [each for each in objects if (definitions if each["kind"] == CRD_KIND else programs)]


class Operator(pulumi.ComponentResource):
    """Upstream's objects, patched, one resource each.

    Parameters:
        row: the controllers.
        stack: for its name.
        cluster: where they are installed.
        objects: the objects that the stack creates, CRDs first.
        first: resources to wait for.

    Attributes:
        ready: the resources for which a job waits. They are deleted after the job: the end of a job is an update of the
            job, and the API server asks the controllers' webhooks about this update. To wait for the resource `Webhook`
            is not enough: a change of `operator.api` does not delete it.
    """

    def __init__(
        self,
        row: Controllers,
        *,
        stack: Stack,
        cluster: Cluster,
        objects: list[Manifest],
        first: list[pulumi.Resource],
    ) -> None:
        super().__init__(f"trainstack:operator:{row.kind}", f"{stack.name}-{row.part}")
        self.row, self.stack, self.cluster = row, stack, cluster
        self.ready = [*first]
        self.ready += [self._register(each) for each in objects if each["kind"] == CRD_KIND]
        if rest := [each for each in objects if each["kind"] != CRD_KIND]:
            self.ready.append(self._run(rest))
        self.register_outputs({})

    def _run(self, objects: list[Manifest]) -> pulumi.Resource:
        """Register the programs and what they need. Returns the resource that is created once their webhooks answer."""
        first = [*self.ready]
        pushed = self._pushed()
        others = [self._register(each, first) for each in objects if each["kind"] != "Deployment"]
        # Rights first: a program without rights tries again after longer and longer pauses, up to minutes.
        opts = self.cluster.options(self, [*first, *others, *self.cluster.pull_ready])
        deployments = [each for each in objects if each["kind"] == "Deployment"]
        for published, image in pushed.items():
            deployments = [with_image(each, published, image) for each in deployments]
        programs = [Object(each, opts) for each in deployments]
        self.ready += programs
        name, probes = self.row.wait
        props = {
            "kubeconfigPath": self.cluster.kubeconfig_path,
            "context": self.cluster.context,
            "namespace": self.stack.operator.namespace,
            "operator": pulumi.Output.all(*(each.uid for each in programs)).apply(" ".join),
            **({} if probes == OperatorApi.V1 else {"api": str(probes)}),
        }
        opts = self.cluster.bound(self, [*programs, *others])
        return Webhook(f"{self.stack.name}-{name}", props, opts)

    def _pushed(self) -> dict[str, pulumi.Output[str]]:
        """Published image -> the reference, in the cluster's registry, of the image that toolchain/ built for it."""
        found = {}
        for part, (variable, published) in self.row.images.items():
            source = os.environ.get(variable)
            if source and self.cluster.registry is not None:
                repository, _, tag = source.rpartition(":")
                props = {"image": source, "repository": repository, "tag": tag}
                place = {"registry": self.cluster.registry, "container": self.cluster.registry_container}
                opts = pulumi.ResourceOptions(parent=self)
                image = RegistryImage(f"{self.stack.name}-{part}", {**props, **place}, opts)
                found[published] = image.reference
        return found

    def add(self, objects: list[Manifest]) -> None:
        """Register objects of the controllers' kinds, one after the other, once the webhooks answer."""
        for each in objects:
            field = quotas.IMMUTABLE.get(each["kind"])
            replacing = pulumi.ResourceOptions(
                replace_on_changes=[field] if field else None, delete_before_replace=True if field else None
            )
            opts = pulumi.ResourceOptions.merge(self.cluster.options(self, [*self.ready]), replacing)
            self.ready.append(Object(each, opts))

    def _register(
        self, manifest: Manifest, depends_on: list[pulumi.Resource] | None = None
    ) -> pulumi.Resource:
        opts = self.cluster.options(self, depends_on)
        filled = FILLED_IN.get(manifest["kind"])
        if "webhook" in (manifest.get("spec") or {}).get("conversion", {}):
            filled = [CONVERSION]
        return Object(
            manifest, pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(ignore_changes=filled))
        )


def register_all(
    stack: Stack, cluster: Cluster, objects: Mapping[str, list[Manifest]], namespaces: list[pulumi.Resource]
) -> Operator:
    """Register the controllers. Returns the last component, which is ready when all are ready.

    Parameters:
        objects: what `parts` returns.
        namespaces: the stack's own namespaces, which come first.
    """
    row = CONTROLLERS[stack.operator.api]
    made = Operator(row, stack=stack, cluster=cluster, objects=objects[OPERATOR], first=namespaces)
    if stack.operator.queue is Queueing.KUEUE:
        # After the API's controllers: see infra/kueue/patches.py.
        made = Operator(QUEUES, stack=stack, cluster=cluster, objects=objects[QUEUE], first=made.ready)
        made.add(objects[QUOTA])
    return made

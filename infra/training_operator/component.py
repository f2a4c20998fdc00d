"""The training-operator in a cluster, ready to take PyTorchJobs."""

from __future__ import annotations

import os
from collections.abc import Mapping

import pulumi

from infra import agreed
from infra.clusters.cluster import Cluster
from infra.config import Stack
from infra.image.providers import RegistryImage
from infra.objects.manifest import Manifest, Object, register, title
from infra.training_operator import patches, throughput
from infra.training_operator.plan import Plan
from infra.training_operator.webhook import Webhook
from infra.upstream import vendored

IMAGES = {"operator": agreed.OPERATOR_IMAGE, "init": agreed.INIT_IMAGE}
# What the operator writes into its own objects while it runs.
FILLED_IN = {
    "ValidatingWebhookConfiguration": ["webhooks[*].clientConfig.caBundle"],
    "MutatingWebhookConfiguration": ["webhooks[*].clientConfig.caBundle"],
    "Secret": ["data"],
}


def manifests(stack: Stack, plan: Plan) -> list[Manifest]:
    """The operator's objects that `plan` registers, the CRD first; a review renders the same.

    The Deployment has the images that upstream publishes.

    Parameters:
        stack: for its name, which the labels have, and section `operator`.
    """
    if not (plan.crd or plan.operator):
        return []
    place = (stack.operator.namespace, plan.scheduler, throughput.flags(stack.operator))
    objects = patches.patched(vendored.objects(patches.NAME), stack.name, None, patches.INIT_IMAGE, *place)
    return [each for each in objects if (plan.crd if each["kind"] == patches.CRD_KIND else plan.operator)]


class Operator(pulumi.ComponentResource):
    """Upstream's objects, patched, one resource each.

    Parameters:
        stack: for its name.
        cluster: where they go.
        plan: which of them are the stack's to make.
        namespaces: the stack's own namespaces, which come first.
        environment: may name images of the engine to push to the cluster's registry.

    Attributes:
        ready: what a job has to wait for, and what has to wait for the job when both go: its end is an update that the
            controllers' webhooks are asked about. The webhook's resource alone would not do, since it stays when
            `operator.api` changes.
    """

    ready: list[pulumi.Resource]
    part = "operator"
    images: Mapping[str, str] = IMAGES
    """What the image is for -> the variable that names it in this machine's engine."""

    def __init__(
        self,
        *,
        stack: Stack,
        cluster: Cluster,
        plan: Plan,
        namespaces: list[pulumi.Resource],
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        super().__init__("trainstack:operator:Operator", f"{stack.name}-{self.part}")
        self.stack, self.cluster = stack, cluster
        self.ready = [*namespaces]
        objects = self._manifests(plan)
        self.ready += [self._register(each) for each in objects if each["kind"] == patches.CRD_KIND]
        if plan.operator:
            rest = [each for each in objects if each["kind"] != patches.CRD_KIND]
            self.ready.append(self._operator(rest, environment))
        self.register_outputs({})

    def _manifests(self, plan: Plan) -> list[Manifest]:
        return manifests(self.stack, plan)

    def _operator(self, objects: list[Manifest], environment: Mapping[str, str]) -> pulumi.Resource:
        """Register the operator. Returns the resource that is created once its webhook answers."""
        image = self._mirrored("operator", self.images["operator"], environment)
        init_image = self._mirrored("init", self.images["init"], environment) or pulumi.Output.from_input(
            patches.INIT_IMAGE
        )
        first = [*self.ready]
        others = [self._register(each, first) for each in objects if each["kind"] != "Deployment"]
        upstream = next(each for each in objects if each["kind"] == "Deployment")
        wanted = pulumi.Output.all(image, init_image).apply(
            lambda images: _with_images(upstream, images[0], images[1])
        )
        # Without its rights it would ask again after ever longer pauses, up to minutes after they are there.
        opts = self.cluster.options(self, [*first, *others, *self.cluster.pull_ready])
        deployment = Object(title(upstream), wanted, api_version="apps/v1", kind="Deployment", opts=opts)
        self.ready.append(deployment)
        props = {
            "kubeconfigPath": self.cluster.kubeconfig_path,
            "context": self.cluster.context,
            "namespace": self.stack.operator.namespace,
            "operator": deployment.uid,
        }
        return Webhook(f"{self.stack.name}-webhook", props, self.cluster.bound(self, [deployment, *others]))

    def _programs(
        self, objects: list[Manifest], environment: Mapping[str, str]
    ) -> tuple[list[pulumi.Resource], list[Object]]:
        """Register `objects`: what the Deployments need, and those with the images that this machine has built."""
        first = [*self.ready]
        others = [self._register(each, first) for each in objects if each["kind"] != "Deployment"]
        opts = self.cluster.options(self, [*first, *others, *self.cluster.pull_ready])
        deployments = [
            Object(
                title(each),
                self._pushed(each, environment),
                api_version="apps/v1",
                kind=each["kind"],
                opts=opts,
            )
            for each in objects
            if each["kind"] == "Deployment"
        ]
        self.ready += deployments
        return others, deployments

    def _pushed(
        self, deployment: Manifest, environment: Mapping[str, str]
    ) -> Manifest | pulumi.Output[Manifest]:
        """The Deployment with the image in the cluster's registry, where this machine has built one."""
        name = deployment["metadata"]["name"]
        image = self._mirrored(name, self.images[name], environment)
        return image.apply(lambda known: _with_image(deployment, known)) if image else deployment

    def _mirrored(
        self, part: str, variable: str, environment: Mapping[str, str]
    ) -> pulumi.Output[str] | None:
        """The reference, in the cluster's registry, of an image that toolchain/ made. None where there is none."""
        source = environment.get(variable)
        if not source or self.cluster.registry is None:
            return None
        repository, _, tag = source.rpartition(":")
        props = {"image": source, "repository": repository, "tag": tag}
        place = {"registry": self.cluster.registry, "container": self.cluster.registry_container}
        opts = pulumi.ResourceOptions(parent=self)
        return RegistryImage(f"{self.stack.name}-{part}", {**props, **place}, opts).reference

    def _register(
        self, manifest: Manifest, depends_on: list[pulumi.Resource] | None = None
    ) -> pulumi.Resource:
        opts = self.cluster.options(self, depends_on)
        ignored = pulumi.ResourceOptions(ignore_changes=FILLED_IN.get(manifest["kind"]))
        return register(manifest, pulumi.ResourceOptions.merge(opts, ignored))


def _with_images(deployment: Manifest, image: str | None, init_image: str) -> Manifest:
    """The patched Deployment with the images known only once they are pushed."""
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    flag = "--pytorch-init-container-image="
    args = [f"{flag}{init_image}" if word.startswith(flag) else word for word in container["args"]]
    changed = {**container, "args": args, **({"image": image} if image else {})}
    pod = {**deployment["spec"]["template"]["spec"], "containers": [changed]}
    template = {**deployment["spec"]["template"], "spec": pod}
    return {**deployment, "spec": {**deployment["spec"], "template": template}}


def _with_image(deployment: Manifest, image: str) -> Manifest:
    pod = deployment["spec"]["template"]["spec"]
    (manager,) = pod["containers"]
    changed = {**pod, "containers": [{**manager, "image": image}]}
    template = {**deployment["spec"]["template"], "spec": changed}
    return {**deployment, "spec": {**deployment["spec"], "template": template}}

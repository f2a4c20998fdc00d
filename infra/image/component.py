"""The trainer image of a stack, by digest."""

from __future__ import annotations

from typing import Any

import pulumi

from infra import paths
from infra.clusters import registries
from infra.clusters.cluster import Cluster
from infra.config import Stack
from infra.config.cluster import Addon
from infra.image import engine_image, inputs
from infra.image.project_image import ProjectImage
from infra.image.providers import BuiltImage, ImportedImage, PulledImages, RegistryImage, RepositoryImage


def rendered_reference(stack: Stack) -> str:
    """The image in a review: the stack's reference, or the tag with the hash of the image's inputs."""
    config = stack.image
    if config.reference:
        return config.reference
    return f"{config.repository or _local_repository(stack)}:{inputs.tag(config, paths.ROOT, {})}"


def _local_repository(stack: Stack) -> str:
    """The name of an image that is only for this machine's cluster."""
    if stack.cluster.kind.imports_images:
        pushed = Addon.REGISTRY in stack.cluster.addons
        return f"{registries.MICROK8S}/{inputs.REPOSITORY}" if pushed else inputs.REPOSITORY
    return f"{registries.address_for_nodes(registries.kind_name(stack.cluster_name))}/{inputs.REPOSITORY}"


class Image(pulumi.ComponentResource):
    """The jobs' image: a ready-made one, or an image that is built here and pushed to a registry or imported."""

    reference: pulumi.Output[str]

    def __init__(self, *, stack: Stack, cluster: Cluster) -> None:
        super().__init__("trainstack:image:Image", f"{stack.name}-image")
        self.on_nodes: list[pulumi.Resource] = []
        config = stack.image
        if config.reference:
            self.reference = pulumi.Output.from_input(config.reference)
        else:
            self.reference = self._built(stack, cluster)
        if cluster.nodes is not None and not config.reference:
            props = {"references": [self.reference], "nodes": cluster.nodes, "instance": cluster.cluster_uid}
            opts = cluster.bound(self, cluster.pull_ready)
            self.on_nodes.append(PulledImages(f"{stack.name}-nodes", props, opts))
        self.digest = self.reference.apply(inputs.digest_of)
        self.register_outputs({"reference": self.reference})

    def _built(self, stack: Stack, cluster: Cluster) -> pulumi.Output[str]:
        child = pulumi.ResourceOptions(parent=self)
        props = self._engine_image(stack)
        in_cluster = f"{cluster.image_registry}/{inputs.REPOSITORY}" if cluster.image_registry else None
        repository = stack.image.repository or in_cluster
        if repository:
            opts = pulumi.ResourceOptions(parent=self, depends_on=cluster.pull_ready)
            return RepositoryImage(stack.name, {**props, "repository": repository}, opts).reference
        if cluster.image_import:
            imported = {
                "image": props["image"],
                "instance": cluster.cluster_uid,
                "command": list(cluster.image_import),
            }
            return ImportedImage(stack.name, imported, child).reference
        place = {"registry": cluster.registry, "container": cluster.registry_container}
        return RegistryImage(stack.name, {**props, **place, "repository": inputs.REPOSITORY}, child).reference

    def _engine_image(self, stack: Stack) -> dict[str, Any]:
        """Build our image, or the user's project on top of it. Returns `image`, its name in the engine, and `tag`."""
        child = pulumi.ResourceOptions(parent=self)
        builds = engine_image.of(stack.image)
        trainer = BuiltImage(stack.name, builds.trainer, child).image if builds.trainer else None
        if builds.project is None:
            return {"image": trainer, "tag": builds.tag}
        props = {**builds.project, "trainer": trainer}
        return {"image": ProjectImage(stack.name, props, child).image, "tag": builds.tag}

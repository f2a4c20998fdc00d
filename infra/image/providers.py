"""Dynamic resources for images."""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pulumi
from pulumi.dynamic import CreateResult, ReadResult

from infra import docker, paths
from infra.clusters import registries
from infra.config.image import Target
from infra.dynamic import DynamicResource, Props, Provider, missing, plain_props
from infra.image import inputs, push
from infra.image.inputs import DOCKERFILE, REPOSITORY
from infra.process import CommandError, pipe


class EngineImageProvider(Provider):
    """An image that is built in the engine, once for each `tag`; the output `image` is its name there.

    The image is never deleted: the next cluster uses the engine's cache. It is built from a copy of the sources. The
    copy's tag must be the tag that the program computed: otherwise an image with other content would keep that name for
    ever.
    """

    updated_by = ("tag",)
    id: str

    def copy(self, props: Props, place: Path) -> str:
        """Copy the files of the image to the empty folder `place`. Returns the tag of the copy."""
        raise NotImplementedError

    def build(self, props: Props, place: Path, image: str) -> None:
        """Build the copy in `place` as `image`. Raises CommandError."""
        raise NotImplementedError

    def create(self, props: Props) -> CreateResult:
        return CreateResult(self.id, self.built(props))

    def read(self, id_: str, props: Props) -> ReadResult:
        return ReadResult(id_, plain_props(props)) if docker.has_image(props["image"]) else missing()

    def built(self, props: Props) -> Props:
        """Build the image if the engine lacks it. Returns `props` with its name. Raises CommandError."""
        image = f"{REPOSITORY}:{props['tag']}"
        if not docker.has_image(image):
            docker.ensure_answers()
            with tempfile.TemporaryDirectory(prefix="trainstack-build-") as place:
                self._build_copy(props, Path(place), image)
        return plain_props(props) | {"image": image}

    def _build_copy(self, props: Props, place: Path, image: str) -> None:
        try:
            found = self.copy(props, place)
        except FileNotFoundError:
            found = None
        if found != props["tag"]:
            raise CommandError("the image's sources changed during its build; run the same command again")
        self.build(props, place, image)


class BuiltImageProvider(EngineImageProvider):
    """Builds an image from Dockerfile_training, in the container engine. Properties: `tag`, `target`, `arguments`."""

    id = "trainer"

    def copy(self, props: Props, place: Path) -> str:
        inputs.copy(paths.ROOT, place)
        return inputs.content_hash(place, Target(props["target"]), props["arguments"])

    def build(self, props: Props, place: Path, image: str) -> None:
        push.docker_build(place, place / DOCKERFILE, props["arguments"], image, "--target", props["target"])


class BuiltImage(DynamicResource, provider=BuiltImageProvider):
    """Output: `image`, its name in the engine."""

    image: pulumi.Output[str]


class RegistryImageProvider(Provider):
    """An image of the engine in a kind cluster's registry.

    Properties: `image`, `registry`, `container` (of the registry), `repository`, `tag`.
    """

    updated_by = ("registry", "container", "repository", "tag")

    def create(self, props: Props) -> CreateResult:
        name, repository, tag = props["registry"], props["repository"], props["tag"]
        found = push.to_registry(props["image"], name, repository, tag)
        reference = f"{registries.address_for_nodes(name)}/{repository}@{found}"
        outs = plain_props(props) | {"digest": found, "reference": reference}
        return CreateResult(f"{name}/{repository}", outs)

    def read(self, id_: str, props: Props) -> ReadResult:
        there = push.in_registry(props["registry"], props["repository"], props["digest"])
        return ReadResult(id_, plain_props(props)) if there else missing()


class RegistryImage(DynamicResource, provider=RegistryImageProvider):
    """Outputs: `digest`, and `reference` by which the nodes pull it."""

    digest: pulumi.Output[str]
    reference: pulumi.Output[str]


class RepositoryImageProvider(Provider):
    """An image of the engine, pushed to a remote repository. Properties: `image`, `repository`, `tag`.

    The pushed image is never deleted: others may use it.
    """

    updated_by = ("repository", "tag")

    def create(self, props: Props) -> CreateResult:
        found = push.to_repository(props["image"], props["repository"], props["tag"])
        made = {"digest": found, "reference": f"{props['repository']}@{found}"}
        return CreateResult(props["repository"], plain_props(props) | made)


class RepositoryImage(DynamicResource, provider=RepositoryImageProvider):
    """Outputs: `digest` and `reference`."""

    digest: pulumi.Output[str]
    reference: pulumi.Output[str]


class ImportedImageProvider(Provider):
    """An image of the engine in the cluster's own containerd.

    Properties: `image`, `instance` (the cluster's uid), `command`, which reads an archive of `docker save`.
    """

    updated_by = ("image", "instance")

    def create(self, props: Props) -> CreateResult:
        pipe(["docker", "save", props["image"]], props["command"])
        return CreateResult(props["image"], plain_props(props) | {"reference": props["image"]})


class ImportedImage(DynamicResource, provider=ImportedImageProvider):
    """Output `reference`: the name with a tag; the hash of the image's inputs makes the tag unique."""

    reference: pulumi.Output[str]


class PulledImagesProvider(Provider):
    """Images that kind nodes pull before the pods need them. Properties: `references`, `nodes`, `instance`."""

    updated_by = ("references", "nodes", "instance")

    def create(self, props: Props) -> CreateResult:
        with ThreadPoolExecutor() as pool:
            wanted = [(node, reference) for node in props["nodes"] for reference in props["references"]]
            for done in [pool.submit(push.pull, *pair) for pair in wanted]:
                done.result()
        return CreateResult(props["instance"], plain_props(props))


class PulledImages(DynamicResource, provider=PulledImagesProvider):
    """Images that the nodes pull while the operator starts."""

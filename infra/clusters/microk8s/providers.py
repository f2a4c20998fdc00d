"""Dynamic resources over the functions beside this file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, ReadResult, Resource, UpdateResult

from infra.clusters.microk8s import commands, lifecycle
from infra.dynamic import Props, Provider, missing, own


class MicroK8sProvider(Provider):
    """Properties: `channel`, `addons`, `marker`, `kubeconfigPath`."""

    updated_by = ("channel", "addons")

    def create(self, props: Props) -> CreateResult:
        found = lifecycle.ensure(props["channel"], props["addons"], *_files(props))
        return CreateResult("microk8s", own(props) | found)

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        moved = _olds["channel"] != _news["channel"]
        found = lifecycle.change(_news["channel"], _news["addons"], *_files(_news), moved)
        return UpdateResult(own(_news) | found)

    def read(self, id_: str, props: Props) -> ReadResult:
        marker, kubeconfig = _files(props)
        if not lifecycle.there(kubeconfig):
            return missing()
        return ReadResult(id_, own(props) | lifecycle.read(marker, kubeconfig))

    def delete(self, _id: str, _props: Props) -> None:
        lifecycle.delete(*_files(_props))


def _files(props: Props) -> tuple[Path, Path]:
    return Path(props["marker"]), Path(props["kubeconfigPath"])


class MicroK8sInstallation(Resource, module="trainstack", name="MicroK8s"):
    """Outputs: `instance`, `ours`, `kubeconfig`."""

    instance: pulumi.Output[str]
    ours: pulumi.Output[bool]
    kubeconfig: pulumi.Output[str]

    def __init__(self, name: str, props: dict[str, Any], opts: pulumi.ResourceOptions) -> None:
        secret = pulumi.ResourceOptions(additional_secret_outputs=["kubeconfig"])
        outputs = {"instance": None, "ours": None, "kubeconfig": None}
        merged = pulumi.ResourceOptions.merge(opts, secret)
        super().__init__(MicroK8sProvider(), name, {**props, **outputs}, merged)


class ImportedImageProvider(Provider):
    """An image of the engine in MicroK8s' containerd. Properties: `image`, `instance`."""

    updated_by = ("image", "instance")

    def create(self, props: Props) -> CreateResult:
        commands.import_image(props["image"])
        return CreateResult(props["image"], own(props) | {"reference": props["image"]})

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        commands.import_image(_news["image"])
        return UpdateResult(own(_news) | {"reference": _news["image"]})


class ImportedImage(Resource, module="trainstack", name="ImportedImage"):
    """Output `reference`: by tag, which the hash of the image's inputs makes unique."""

    reference: pulumi.Output[str]

    def __init__(self, name: str, props: dict[str, Any], opts: pulumi.ResourceOptions) -> None:
        super().__init__(ImportedImageProvider(), name, {**props, "reference": None}, opts)

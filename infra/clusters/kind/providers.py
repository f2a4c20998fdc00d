"""Dynamic resources over the functions beside this file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, ReadResult, Resource, UpdateResult

from infra.clusters.kind import cluster, registry
from infra.clusters.kind.config import KindConfig
from infra.dynamic import Props, Provider, changed, missing, own


class ClusterProvider(Provider):
    """Properties: `config` (KindConfig as JSON), `image`, `kubeconfigPath`, `project`."""

    replaced_by = ("config", "image", "kubeconfigPath", "project")

    def create(self, props: Props) -> CreateResult:
        kubeconfig, project = Path(props["kubeconfigPath"]), Path(props["project"])
        config = _config(props)
        return CreateResult(
            config.name, own(props) | cluster.create(config, props["image"], kubeconfig, project)
        )

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        replaces = changed(self.replaced_by, _olds, _news)
        if not replaces and _found(_olds) is None:
            replaces = ["config"]  # deleted by hand: a plain `pulumi up` makes it anew, too
        return DiffResult(changes=bool(replaces), replaces=replaces, delete_before_replace=True)

    def read(self, id_: str, props: Props) -> ReadResult:
        found = _found(props)
        return missing() if found is None else ReadResult(id_, own(props) | found)

    def delete(self, _id: str, _props: Props) -> None:
        marker = Path(_config(_props).marker)
        cluster.delete(_id, Path(_props["kubeconfigPath"]), marker, Path(_props["project"]))


def _config(props: Props) -> KindConfig:
    return KindConfig(**json.loads(props["config"]))


def _found(props: Props) -> dict[str, Any] | None:
    config = _config(props)
    return cluster.read(config.name, Path(props["kubeconfigPath"]), Path(config.marker))


class KindCluster(Resource, module="trainstack", name="KindCluster"):
    """Outputs: `instance` (another one for each cluster made), `nodes`, `kubeconfig`."""

    instance: pulumi.Output[str]
    nodes: pulumi.Output[list[str]]
    kubeconfig: pulumi.Output[str]

    def __init__(self, name: str, props: dict[str, Any], opts: pulumi.ResourceOptions) -> None:
        opts = pulumi.ResourceOptions.merge(
            opts, pulumi.ResourceOptions(additional_secret_outputs=["kubeconfig"], delete_before_replace=True)
        )
        outputs = {"instance": None, "nodes": None, "kubeconfig": None}
        super().__init__(ClusterProvider(), name, {**props, **outputs}, opts)


class RegistryProvider(Provider):
    """Properties: `name`, `image`, `project`."""

    replaced_by = ("name", "image", "project")

    def create(self, props: Props) -> CreateResult:
        return CreateResult(
            props["name"], own(props) | registry.create(props["name"], props["image"], props["project"])
        )

    def read(self, id_: str, props: Props) -> ReadResult:
        found = registry.read(id_, props["project"])
        return missing() if found is None else ReadResult(id_, own(props) | found)

    def delete(self, _id: str, _props: Props) -> None:
        registry.delete(_id, _props["project"])


class Registry(Resource, module="trainstack", name="Registry"):
    """Output `container`: the id of the container."""

    container: pulumi.Output[str]

    def __init__(self, name: str, props: dict[str, Any], opts: pulumi.ResourceOptions) -> None:
        super().__init__(RegistryProvider(), name, {**props, "container": None}, opts)


class ConnectionProvider(Provider):
    """Properties: `registry`, `container`, `instance`, `nodes`."""

    updated_by = ("registry", "container", "instance", "nodes")

    def create(self, props: Props) -> CreateResult:
        registry.connect(props["registry"], props["nodes"])
        return CreateResult(props["registry"], own(props))

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        registry.connect(_news["registry"], _news["nodes"])
        return UpdateResult(own(_news))


class Connection(Resource, module="trainstack", name="RegistryConnection"):
    """The nodes' way to the registry. Pushes wait for it: joining the nodes' network cuts off whoever pushes."""

    container: pulumi.Output[str]

    def __init__(self, name: str, props: dict[str, Any], opts: pulumi.ResourceOptions) -> None:
        super().__init__(ConnectionProvider(), name, props, opts)

"""Dynamic resources that call the functions of the modules beside this file."""

from __future__ import annotations

from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, ReadResult, UpdateResult

from infra import paths
from infra.clusters import replacement
from infra.clusters.kind import kind_cli, ownership, registry, repair
from infra.clusters.kind.config import KindConfig, differences
from infra.dynamic import DynamicResource, Props, Provider, missing, plain_props, show


class ClusterProvider(Provider):
    """Properties: `config` (KindConfig as JSON) and `image`.

    An existing cluster is repaired: a stopped cluster is never replaced. The module `replacement` says what causes a
    replacement, and what a replacement needs. States of release 0.1 also hold absolute paths, which nothing reads.
    """

    def create(self, props: Props) -> CreateResult:
        config = _config(props)
        return CreateResult(config.name, plain_props(props) | kind_cli.create(config, props.get("image")))

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        config = _config(_olds)
        nodes = ownership.own_nodes(config.name, _olds.get("instance"))
        if not nodes:  # deleted by hand: a plain `pulumi up` also creates it again
            return DiffResult(changes=True, replaces=["config"], delete_before_replace=True)
        reasons = _reasons(nodes, _olds, _news)
        if reasons:
            repair.repair(config.name, show)
            replacement.ensure_allowed(config.name, config.stack, reasons, show)
            return DiffResult(changes=True, replaces=["config"], delete_before_replace=True)
        if newer := replacement.newer_image(config.stack, _olds.get("image"), _news.get("image")):
            show(newer)
        return DiffResult(changes=not repair.is_working(nodes, paths.kubeconfig(config.name)), replaces=[])

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        """Only a repair: the cluster keeps its settings and its image."""
        repaired = self.read(_id, plain_props(_olds)).outs or {}
        return UpdateResult(plain_props(_news) | repaired | {"config": _news["config"]})

    def read(self, id_: str, props: Props) -> ReadResult:
        name, uid = _config(props).name, props.get("instance")
        # A refresh asks the API server next.
        repair.repair(name, show, uid)
        found = kind_cli.read(name, uid)
        return missing() if found is None else ReadResult(id_, plain_props(props) | found)

    def delete(self, _id: str, _props: Props) -> None:
        kind_cli.delete(_id, _props.get("instance"))


def _config(props: Props) -> KindConfig:
    return KindConfig.decode(props["config"])


def replaced_for(olds: Props, news: Props) -> list[str]:
    """Why an update will replace the cluster; empty if it stays."""
    config = _config(olds)
    nodes = ownership.own_nodes(config.name, olds.get("instance"))
    return _reasons(nodes, olds, news) if nodes else [f"cluster {config.name} is gone"]


def _reasons(nodes: list[ownership.Node], olds: Props, news: Props) -> list[str]:
    """Why the cluster has to be replaced; empty if it stays."""
    missing = set(olds.get("nodes") or []) - {ownership.node_name(node) for node in nodes}
    reasons = differences(_config(olds), _config(news))
    reasons += [f"node {name} is gone, and kind cannot add a node" for name in sorted(missing)]
    if replacement.is_allowed() and olds.get("image") != news.get("image"):
        reasons.append(f"image: {olds.get('image')} -> {news.get('image')}")
    return reasons


class KindCluster(DynamicResource, provider=ClusterProvider):
    """Outputs: `instance` (the cluster's uid, new for each created cluster), `nodes`, `kubeconfig`."""

    instance: pulumi.Output[str]
    nodes: pulumi.Output[list[str]]
    kubeconfig: pulumi.Output[str]

    def __init__(self, name: str, props: dict[str, Any], opts: pulumi.ResourceOptions) -> None:
        own = pulumi.ResourceOptions(additional_secret_outputs=["kubeconfig"], delete_before_replace=True)
        super().__init__(name, props, pulumi.ResourceOptions.merge(opts, own))


class RegistryProvider(Provider):
    """Properties: `name`, `image`.

    The registry is replaced only if its container does not exist or does not ask for this clone's login, or if its name
    changes. Another image replaces it only with REPLACE_CLUSTER=yes.
    """

    def create(self, props: Props) -> CreateResult:
        return CreateResult(
            props["name"], plain_props(props) | registry.create(props["name"], props["image"])
        )

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        found = registry.own(_olds["name"])
        if found is None or _olds["name"] != _news["name"]:
            return DiffResult(changes=True, replaces=["name"], delete_before_replace=True)
        wants_newer = replacement.is_allowed() and _olds["image"] != _news["image"]
        replaces = ["image"] if wants_newer else []
        if not replaces and not registry.asks_for_login(found):
            show(
                f"registry {_olds['name']} does not ask for this clone's login: it is replaced, and images are pushed "
                "again"
            )
            replaces = ["name"]
        changes = bool(replaces) or not registry.is_running(found)
        return DiffResult(changes=changes, replaces=replaces, delete_before_replace=True)

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        if found := registry.own(_olds["name"]):
            registry.start(_olds["name"], found)
        return UpdateResult(plain_props(_olds))

    def read(self, id_: str, props: Props) -> ReadResult:
        found = registry.own(id_)
        if found is None:
            return missing()
        registry.start(id_, found)
        return ReadResult(id_, plain_props(props) | registry.outputs(found))

    def delete(self, _id: str, _props: Props) -> None:
        registry.delete(_id)


class Registry(DynamicResource, provider=RegistryProvider):
    """Output `container`: the id of the container."""

    container: pulumi.Output[str]


class ConnectionProvider(Provider):
    """Properties: `registry`, `container`, `instance`, `nodes`."""

    updated_by = ("registry", "container", "instance", "nodes")

    def create(self, props: Props) -> CreateResult:
        registry.connect(props["registry"], props["nodes"])
        return CreateResult(props["registry"], plain_props(props))


class Connection(DynamicResource, provider=ConnectionProvider, name="RegistryConnection"):
    """The nodes' connection to the registry. Pushes wait for it, because a new connection breaks running pushes."""

    container: pulumi.Output[str]

"""Dynamic resources that call the functions of the modules beside this file."""

from __future__ import annotations

from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, ReadResult, UpdateResult

from infra.clusters.microk8s import installation
from infra.dynamic import DynamicResource, Props, Provider, changed, missing, plain_props, show


class MicroK8sProvider(Provider):
    """Properties: `name` of the stack's cluster, `channel`, `addons`.

    A stopped installation is started. It counts as removed only if snapd says so.
    """

    updated_by = ("channel", "addons")

    def create(self, props: Props) -> CreateResult:
        found = installation.create(props["channel"], props["addons"], props["name"])
        return CreateResult(installation.NAME, plain_props(props) | found)

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        updates = changed(self.updated_by, _olds, _news)
        return DiffResult(changes=bool(updates) or not installation.is_working(_news["name"]), replaces=[])

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        moved = _olds["channel"] != _news["channel"]
        found = installation.change(_news["channel"], _news["addons"], _news["name"], moved)
        return UpdateResult(plain_props(_news) | found)

    def read(self, id_: str, props: Props) -> ReadResult:
        # A refresh asks the API server next.
        installation.repair(props["name"], show)
        found = installation.read(props["name"])
        return missing() if found is None else ReadResult(id_, plain_props(props) | found)

    def delete(self, _id: str, _props: Props) -> None:
        installation.delete(_props["name"])


class MicroK8sInstallation(DynamicResource, provider=MicroK8sProvider, name="MicroK8s"):
    """Outputs: `instance` (the cluster's uid), `ours`, `kubeconfig`."""

    instance: pulumi.Output[str]
    ours: pulumi.Output[bool]
    kubeconfig: pulumi.Output[str]

    def __init__(self, name: str, props: dict[str, Any], opts: pulumi.ResourceOptions) -> None:
        own = pulumi.ResourceOptions(additional_secret_outputs=["kubeconfig"])
        super().__init__(name, props, pulumi.ResourceOptions.merge(opts, own))

"""A Kubernetes object as data, and the resource that registers it."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import pulumi

Manifest = dict[str, Any]


def title(manifest: Manifest) -> str:
    """`PersistentVolumeClaim/kubeflow/models`, unique within a cluster."""
    metadata = manifest["metadata"]
    return "/".join(filter(None, [manifest["kind"], metadata.get("namespace"), metadata["name"]]))


class Object(pulumi.CustomResource):
    """Registers `manifest` under the type that pulumi_kubernetes gives it, with the API's own key names.

    The SDK's classes would do the same for the built-in kinds only, each with its own arguments.
    """

    metadata: pulumi.Output[dict[str, Any]]

    def __init__(
        self,
        name: str,
        manifest: pulumi.Input[Manifest],
        *,
        api_version: str,
        kind: str,
        fields: tuple[str, ...] = ("spec",),
        opts: pulumi.ResourceOptions,
    ) -> None:
        """`fields`: the top-level keys beside apiVersion, kind and metadata, where `manifest` is not known yet."""
        known = pulumi.Output.from_input(manifest)
        props: dict[str, Any] = {key: known[key] for key in ("metadata", *fields)}
        token = f"kubernetes:{_group(api_version)}:{kind}"
        plugin = pulumi.ResourceOptions(version=version("pulumi-kubernetes"))
        merged = pulumi.ResourceOptions.merge(plugin, opts)
        super().__init__(token, name, {"apiVersion": api_version, "kind": kind, **props}, merged)
        # A preview without a cluster has no uid to tell.
        self.uid = self.metadata.apply(lambda metadata: str(metadata.get("uid", "")))


def register(manifest: Manifest, opts: pulumi.ResourceOptions, name: str = "") -> Object:
    """Register an object whose manifest is known when the program runs."""
    fields = tuple(key for key in manifest if key not in ("apiVersion", "kind", "metadata", "status"))
    return Object(
        name or title(manifest),
        manifest,
        api_version=manifest["apiVersion"],
        kind=manifest["kind"],
        fields=fields,
        opts=opts,
    )


def _group(api_version: str) -> str:
    """The core group has no name in the API and `core` in Pulumi's types."""
    return api_version if "/" in api_version else f"core/{api_version}"

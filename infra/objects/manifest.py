"""A Kubernetes object as data, and the resource that registers it."""

from __future__ import annotations

from collections.abc import Awaitable
from importlib.metadata import version
from typing import Any, TypeVar, cast

import pulumi

from infra.objects.kinds import title

Manifest = dict[str, Any]
T = TypeVar("T")


class Object(pulumi.CustomResource):
    """Registers `manifest` under the type that pulumi_kubernetes gives it, with the API's own key names.

    The SDK's classes would do the same for the built-in kinds only, each with its own arguments.
    """

    metadata: pulumi.Output[dict[str, Any]]

    def __init__(
        self,
        name: str,
        manifest: Manifest | pulumi.Output[Manifest],
        *,
        api_version: str,
        kind: str,
        fields: tuple[str, ...] = ("spec",),
        opts: pulumi.ResourceOptions,
    ) -> None:
        """`fields`: top-level keys besides apiVersion, kind and metadata, for a `manifest` that is not known yet."""
        # In a mapping, a preview shows the known values beside the unknown ones.
        props: dict[str, Any] = {key: manifest[key] for key in ("metadata", *fields)}
        token = f"kubernetes:{_group(api_version)}:{kind}"
        plugin = pulumi.ResourceOptions(version=version("pulumi-kubernetes"))
        merged = pulumi.ResourceOptions.merge(plugin, opts)
        super().__init__(token, name, {"apiVersion": api_version, "kind": kind, **props}, merged)
        # A preview does not know the id of a new object; the uid in its metadata comes from a dry run.
        self.uid = pulumi.Output.all(self.id, self.metadata).apply(lambda known: str(known[1].get("uid", "")))


def delete_first(resource: pulumi.Resource, value: T) -> pulumi.Output[T]:
    """`value`, as if it came from `resource`. An object with this value is deleted before `resource`.

    If a second resource reads a property of `resource`, and a change of this property would replace the second one,
    Pulumi replaces the second one before it deletes `resource`. The value stays known in previews.
    """
    known = pulumi.Output.from_input(value)
    content = cast("Awaitable[T]", known.future(with_unknowns=True))
    return pulumi.Output({resource}, content, known.is_known(), known.is_secret())


def register(manifest: Manifest, opts: pulumi.ResourceOptions, name: str = "") -> Object:
    """Register an object whose manifest is known when the program runs, except some values.

    Parameters:
        name: of the resource; by default the object's title.
    """
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
    """The group and version in Pulumi's types: the core group has no name in the API, and the name `core` in Pulumi."""
    return api_version if "/" in api_version else f"core/{api_version}"

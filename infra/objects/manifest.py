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

    def __init__(self, manifest: Manifest, opts: pulumi.ResourceOptions, name: str = "") -> None:
        """Single values of `manifest` may be unknown in a preview. `name`: by default the object's title."""
        token = f"kubernetes:{_group(manifest['apiVersion'])}:{manifest['kind']}"
        plugin = pulumi.ResourceOptions(version=version("pulumi-kubernetes"))
        props = {key: value for key, value in manifest.items() if key != "status"}
        super().__init__(token, name or title(manifest), props, pulumi.ResourceOptions.merge(plugin, opts))
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


def with_image(value: Any, old: str, new: pulumi.Output[str]) -> Any:
    """`value` with `new` instead of `old` in each text. Only these texts may be unknown: a preview shows the others."""
    if isinstance(value, dict):
        return {key: with_image(each, old, new) for key, each in value.items()}
    if isinstance(value, list):
        return [with_image(each, old, new) for each in value]
    if isinstance(value, str) and old in value:
        text = value
        return new.apply(lambda image: text.replace(old, image))
    return value


def _group(api_version: str) -> str:
    """The group and version in Pulumi's types: the core group has no name in the API, and the name `core` in Pulumi."""
    return api_version if "/" in api_version else f"core/{api_version}"

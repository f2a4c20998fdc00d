"""Base of our dynamic resource providers.

Pulumi pickles a provider into the state. Ours are importable classes without data, so the state holds only their names.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from inspect import get_annotations
from typing import Any, ClassVar

import pulumi
from pulumi.dynamic import ConfigureRequest, DiffResult, ReadResult, Resource, ResourceProvider, UpdateResult

Props = dict[str, Any]
GONE = ""
IGNORED = {"__provider"}
# Properties with the cluster's address. A moved file or a renamed context leads to the same cluster.
ADDRESS = ("kubeconfigPath", "context")
# Pulumi's host of dynamic providers (3.260) handles four calls at once, ignores PULUMI_PARALLEL, and has no setting for
# another number. Four jobs that train, or wait in a queue, would block all other jobs and the copies of their models.
# Source: `main` of pulumi/dynamic/__main__.py. gRPC looks for `experimental_thread_pool` at each call (_server.py).
HOST = "pulumi.dynamic.__main__"
LONG = ("Create", "Update", "Read", "Delete")
"""Methods that may wait for a cluster. All others run in the host's own threads."""
CALLS = 1000
"""More calls than Pulumi makes at once. A new thread starts only if all others are busy."""


class Provider(ResourceProvider):
    """The base of our providers: says which changed inputs replace a resource, and which update it in place."""

    serialize_as_secret_always = False
    # Input properties. A change of `replaced_by` replaces the object. After a change of `updated_by`, an update does
    # the work of `create` again. Other changes are ignored.
    replaced_by: tuple[str, ...] = ()
    updated_by: tuple[str, ...] = ()
    # Input properties that an update only copies into the state: ADDRESS, for resources that reach a cluster.
    taken_over: tuple[str, ...] = ()

    def configure(self, req: ConfigureRequest) -> None:
        host = sys.modules["__main__"]
        if getattr(host.__spec__, "name", "") == HOST:
            host.traceback = _Messages  # type: ignore[attr-defined]
            _raise_limit(host)

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        replaces = changed(self.replaced_by, _olds, _news)
        changes = replaces or changed(self.taken_over, _olds, _news) or self.is_outdated(_olds, _news)
        return DiffResult(changes=bool(changes), replaces=replaces, stables=[], delete_before_replace=True)

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        """Do the work of `create` again if it is outdated; else copy `taken_over` into the state."""
        if self.is_outdated(_olds, _news):
            return UpdateResult(self.create(_news).outs)
        given = [key for key in self.taken_over if key in _olds or key in _news]
        return UpdateResult(plain_props(_olds) | {key: _news.get(key) for key in given})

    def is_outdated(self, olds: Props, news: Props) -> bool:
        """Whether an update has to do the work of `create` again."""
        return bool(changed(self.updated_by, olds, news))


class DynamicResource(Resource):
    """The base of our dynamic resources. The annotated attributes of a class are its resource's outputs.

    Parameters of a class:
        provider: what creates its resources.
        name: the end of the resource's type; else the name of the class.
    """

    _provider_class: ClassVar[type[Provider]]

    def __init_subclass__(cls, provider: type[Provider], name: str = "") -> None:
        super().__init_subclass__(module="trainstack", name=name or cls.__name__)
        cls._provider_class = provider

    def __init__(self, name: str, props: Props, opts: pulumi.ResourceOptions | None = None) -> None:
        outputs = dict.fromkeys(get_annotations(type(self)))
        super().__init__(self._provider_class(), name, outputs | props, opts)


class _Messages:
    """Replaces the module `traceback` in Pulumi's host (3.260): of our errors, users need only the message."""

    @staticmethod
    def format_exc() -> str:
        error = sys.exception()
        return str(error) or type(error).__name__


def _raise_limit(host: Any) -> None:
    """Let a host of dynamic providers handle CALLS long calls at once."""
    handlers = [getattr(host.DynamicResourceProviderServicer, name) for name in LONG]
    if not hasattr(handlers[0], "experimental_thread_pool"):
        pool = ThreadPoolExecutor(CALLS)
        for handler in handlers:
            handler.experimental_thread_pool = pool


def changed(keys: tuple[str, ...], olds: Props, news: Props) -> list[str]:
    """The keys among `keys` whose values differ."""
    return [key for key in keys if olds.get(key) != news.get(key)]


def missing() -> ReadResult:
    """An empty id tells Pulumi that the object no longer exists."""
    return ReadResult(GONE, {})


def show(line: str) -> None:
    """Print a line. Pulumi shows a plugin's output."""
    print(line, flush=True)


def plain_props(props: Props) -> Props:
    """Properties without Pulumi's own."""
    return {key: value for key, value in props.items() if key not in IGNORED}

"""The provider's own configuration: connects to its cluster, and says whether a change means another cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pulumi_standins.kubernetes import kubeconfig
from pulumi_standins.kubernetes.api_client import ApiClient
from pulumi_standins.kubernetes.connection import Connection
from pulumi_standins.kubernetes.errors import ApiError, UnreachableError
from pulumi_standins.kubernetes.kubeconfig import KubeconfigError
from pulumi_standins.kubernetes.patience import Patience
from pulumi_standins.kubernetes.settings import Settings
from pulumi_standins.kubernetes.transport import Transport
from pulumi_standins.kubernetes.values import Object, Unknown, plain

_PLACE = ("kubeconfig", "context", "cluster")
_IDENTIFIER = "clusterIdentifier"


@dataclass
class Connected:
    """The result of connecting.

    Parameters:
        client: None if the cluster cannot be reached.
        namespace: the default namespace, also known without a client.
        reason: why there is no client.
    """

    client: ApiClient | None
    namespace: str
    reason: str = ""


def connect(settings: Settings, cancelled: threading.Event, say: Callable[[str], None]) -> Connected:
    """Connect to the cluster; an unreachable cluster is no error yet.

    Parameters:
        cancelled: set when the user asks to stop.
        say: called with a line for the user, for example about the wait for the server.

    Raises:
        CancelledError: the user asked to stop while the server was away.
    """
    try:
        connection = Connection(settings)
    except KubeconfigError as problem:
        reason = f"unable to load Kubernetes client configuration from kubeconfig file: {problem}"
        return Connected(None, settings.namespace, reason)
    patience = Patience(settings.patience, cancelled, say)
    client = ApiClient(Transport(connection, patience, cancelled, settings.timeout))
    try:
        client.probe(hurried=settings.known_gone)
    except (UnreachableError, ApiError, OSError, ValueError) as error:
        reason = f"unable to load schema information from the API server: {error}"
        return Connected(None, connection.namespace, reason)
    return Connected(client, connection.namespace)


@dataclass
class ConfigDiff:
    """The difference between two configurations of a provider.

    Parameters:
        changed: names of changed arguments.
        replaces: arguments that mean another cluster: its objects must be replaced.
    """

    changed: list[str]
    replaces: list[str]


def diff_config(olds: Object, news: Object) -> ConfigDiff:
    """Compare two configurations: if the provider moves to another cluster, its objects are replaced.

    A cluster is identified by its entry in the kubeconfig, or by `clusterIdentifier` if both sides have one.
    """
    olds, news = plain(olds), plain(news)
    changed = sorted(key for key in olds.keys() | news.keys() if olds.get(key) != news.get(key))
    if not changed:
        return ConfigDiff([], [])
    replaces = []
    if _IDENTIFIER in changed and _IDENTIFIER in olds and _IDENTIFIER in news:
        replaces.append(_IDENTIFIER)
    is_pinned = _IDENTIFIER in news and _IDENTIFIER not in changed
    for key in _PLACE:
        if isinstance(news.get(key), Unknown):
            return ConfigDiff([key], [] if is_pinned else [*replaces, key])
    before, after = _active_cluster(olds), _active_cluster(news)
    if before is not None and after is not None and before != after:
        replaces += [key for key in _PLACE if key in changed]
    return ConfigDiff(changed, [] if is_pinned else replaces)


def _active_cluster(arguments: Object) -> dict[str, Any] | None:
    text = arguments.get("kubeconfig")
    if isinstance(text, dict):
        config = text
    elif not text:
        config = {}
    else:
        try:
            config, _ = kubeconfig.parse(str(text))
        except KubeconfigError:
            # A moved file, or a file on another machine, is no reason to replace a whole cluster.
            return None
    return kubeconfig.active_cluster(
        config, context=str(arguments.get("context") or ""), cluster=str(arguments.get("cluster") or "")
    )

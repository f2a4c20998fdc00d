"""The kubeconfig of an existing cluster, and whether it leads to the cluster that the stack file names."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from infra import agreed
from infra.clusters.existing import one_context
from infra.config.cluster import ClusterConfig
from infra.config.cluster_access import valid_sections
from infra.config.errors import not_allowed
from infra.objects.api import ApiAddress
from infra.objects.kinds import NAMESPACE
from infra.objects.look import Look, UnknownError

PREFIX = "trainstack:cluster"
OTHER_FILE = "name another kubeconfig (cluster.kubeconfig, or KUBECONFIG=FILE without this key)"
ID_OF = "kube-system"
"""The namespace whose uid serves as the cluster's id: the namespace lives as long as the cluster."""


def kubeconfig_path(cluster: ClusterConfig, environment: Mapping[str, str] = os.environ) -> Path:
    """The configured file, else the first file of KUBECONFIG, else the usual file."""
    configured = cluster.kubeconfig
    return Path(configured) if configured else agreed.usual_kubeconfig(environment)


def ensure_named(file: str, cluster: ClusterConfig, asked: Look) -> None:
    """Refuse a kubeconfig that leads to another cluster than the stack file names.

    Raises ConfigError for a difference, and if the file is not a kubeconfig. Raises UnknownError if the stack file
    names the cluster's id and the cluster cannot be asked for its id.

    Parameters:
        file: the stack file's path, for errors.
    """
    path = kubeconfig_path(cluster)
    if path.exists():  # without it there is nothing to compare, and nothing can be touched
        _ensure_context(file, cluster.context, path)
        _ensure_server(file, cluster, path)
    if cluster.id:
        without = "remove cluster.id, and name the cluster by cluster.server"
        found = asked.get(NAMESPACE, ID_OF, without=without)
        if found is None:
            raise UnknownError(
                f"{file}: {PREFIX}.id = {cluster.id!r}, but the cluster of {path} has no namespace {ID_OF} to compare\n"
                f"  fix: {OTHER_FILE}"
            )
        live = str(found["metadata"].get("uid"))
        if live != cluster.id:
            allowed = f"{live}, the uid of namespace {ID_OF} in the cluster of {_by(cluster, path)}"
            raise not_allowed(file, f"{PREFIX}.id", cluster.id, allowed, _fix("id", live))


def ensure_named_by(file: Path, show: Callable[[str], None]) -> None:
    """As `ensure_named`, for the stack of a file. `show` gets a line when the API server goes away."""
    cluster = valid_sections(file).cluster
    address = ApiAddress(str(kubeconfig_path(cluster)), cluster.context)
    ensure_named(os.path.relpath(file), cluster, Look(address, show))


def _ensure_context(file: str, wanted: str | None, path: Path) -> None:
    known = [entry["name"] for entry in one_context.read(path).get("contexts") or []]
    if wanted is not None and wanted not in known:
        allowed = f"a context of {path}: {', '.join(known) or 'it has none'}"
        fix = "use one of these, or remove `context` to use the current context" if known else OTHER_FILE
        raise not_allowed(file, f"{PREFIX}.context", wanted, allowed, fix)


def _ensure_server(file: str, cluster: ClusterConfig, path: Path) -> None:
    entries = one_context.reduced(one_context.read(path), cluster.context, path.absolute().parent)["clusters"]
    found = str(entries[0]["cluster"].get("server", "")) if entries else ""
    if cluster.server and cluster.server.rstrip("/") != found.rstrip("/"):
        allowed = f"{found or '(none)'}, the server of {_by(cluster, path)}"
        raise not_allowed(file, f"{PREFIX}.server", cluster.server, allowed, _fix("server", found))


def _by(cluster: ClusterConfig, path: Path) -> str:
    return f"context {cluster.context} of {path}" if cluster.context else f"the current context of {path}"


def _fix(key: str, found: str) -> str:
    context = "another context (cluster.context, or `kubectl config use-context NAME` without this key)"
    return f"{OTHER_FILE}, or {context}; or, to move the stack, write `{key}: {found or 'URL'}` and have this reviewed"

"""Looks at a cluster that is there before anything is registered: what of ours or others' it holds, and its GPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import urllib3
from kubernetes import client
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException

from infra.config.names import quantity
from infra.config.resources import GPU
from infra.objects.api import ApiAddress, api_client
from infra.objects.pytorchjob import CRD, OPERATOR_SELECTOR

TIMEOUT_S = 3
# Whether a live object, with its kind, is this stack's.
IsOurs = Callable[[dict[str, Any]], bool]


@dataclass(frozen=True)
class ClusterContents:
    """What the cluster holds that is not this stack's. `problem` says why it could not be asked, else it is empty.

    `gpus` counts what the nodes offer to pods, whoever uses them now; `nodes` are those that take new pods, with their
    taints.
    """

    problem: str = ""
    namespaces: frozenset[str] = field(default_factory=frozenset)
    crd: bool = False
    operator: bool = False
    gpus: int = 0
    nodes: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)


def read_contents(address: ApiAddress, is_ours: IsOurs) -> ClusterContents:
    """Ask the cluster at `address` once, for at most a few seconds."""
    try:
        connection = api_client(address)
        connection.rest_client.pool_manager.connection_pool_kw["retries"] = urllib3.Retry(0)
        return _ask(connection, is_ours)
    except (ConfigException, OSError, urllib3.exceptions.HTTPError) as error:
        return ClusterContents(problem=_short(error))
    except ApiException as error:
        return ClusterContents(problem=f"{error.status} {error.reason}")


def _ask(connection: client.ApiClient, is_ours: IsOurs) -> ClusterContents:
    def listed(objects: Any) -> list[dict[str, Any]]:
        return [connection.sanitize_for_serialization(each) for each in objects.items]  # type: ignore[no-untyped-call]

    core = client.CoreV1Api(connection)
    namespaces = listed(core.list_namespace(_request_timeout=TIMEOUT_S))
    nodes = listed(core.list_node(_request_timeout=TIMEOUT_S))
    extensions = client.ApiextensionsV1Api(connection)
    crds = listed(
        extensions.list_custom_resource_definition(
            field_selector=f"metadata.name={CRD}", _request_timeout=TIMEOUT_S
        )
    )
    apps = client.AppsV1Api(connection)
    operators = listed(
        apps.list_deployment_for_all_namespaces(label_selector=OPERATOR_SELECTOR, _request_timeout=TIMEOUT_S)
    )
    return contents_of(is_ours, namespaces, crds, operators, nodes)


def contents_of(
    is_ours: IsOurs,
    namespaces: list[dict[str, Any]],
    crds: list[dict[str, Any]],
    operators: list[dict[str, Any]],
    nodes: list[dict[str, Any]],
) -> ClusterContents:
    """What is not this stack's among the listed objects, and the GPUs of `nodes` that take pods."""

    def foreign(kind: str, objects: list[dict[str, Any]]) -> list[str]:
        return [each["metadata"]["name"] for each in objects if not is_ours({**each, "kind": kind})]

    return ClusterContents(
        namespaces=frozenset(foreign("Namespace", namespaces)),
        crd=bool(foreign("CustomResourceDefinition", crds)),
        operator=bool(foreign("Deployment", operators)),
        gpus=sum(int(quantity(node["status"].get("allocatable", {}).get(GPU, "0"))) for node in nodes),
        nodes={
            node["metadata"]["name"]: node["spec"].get("taints") or []
            for node in nodes
            if not node["spec"].get("unschedulable")
        },
    )


def _short(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__

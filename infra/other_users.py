"""`python -m infra.other_users STACK`: who else uses what the stack has installed for all in a shared cluster.

Standard input is a JSON list of the stack's own objects, `Kind/namespace/name`. Prints a JSON object: `jobs`, others'
in the whole cluster that its operator runs, and `namespaces`, others' objects in each namespace that the stack made.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterator
from typing import Any

import urllib3
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException

from infra import paths
from infra.clusters import addresses
from infra.command_line import errors_as_text
from infra.config import ConfigError, cluster_access
from infra.config.operator import OperatorApi
from infra.objects import gangs
from infra.objects.api import ApiAddress
from infra.objects.cluster_api import ClusterApi
from infra.objects.job_kinds import DEFINITION, OF_API, SHARED
from infra.objects.kinds import CLAIM, DEPLOYMENT, JOB, POD, Kind
from infra.objects.manifest import Manifest, title
from infra.run import reader_pod

TIMEOUT_S = 10
NAMESPACED = (
    *(CLAIM, DEPLOYMENT, JOB, POD),
    *(Kind.of(each, "v1") for each in ("ConfigMap", "Secret", "Service")),
    *(Kind.of(each, "apps/v1") for each in ("DaemonSet", "ReplicaSet", "StatefulSet")),
    *(Kind.of("CronJob", "batch/v1"), Kind.of("Ingress", "networking.k8s.io/v1")),
)
# Kubernetes itself puts these into every namespace.
EVERYWHERE = {("ConfigMap", "kube-root-ca.crt")}
NOT_FOUND = 404
# What is installed for all of a cluster's users, the scheduler of gangs included.
EVERY = (*SHARED, *gangs.KINDS)


def users(address: ApiAddress, own: Collection[str], api: OperatorApi = OperatorApi.V1) -> dict[str, Any]:
    """Others' jobs, and others' objects by namespace. A user who may not list them has to assume that there are some.

    Parameters:
        own: titles of the stack's objects; its namespaces are among them.
        api: what the stack file asks for. Kinds that the stack has defined are asked about, too.
    """
    kinds = [each for each in EVERY if each.crd in OF_API[api].crds or f"{DEFINITION}/{each.crd}" in own]
    namespaces = [each.partition("/")[2] for each in own if each.startswith("Namespace/")]
    return {
        "jobs": jobs_of(address, kinds, own),
        "namespaces": {name: in_namespace(address, name, own) for name in namespaces},
    }


def jobs_of(address: ApiAddress, kinds: Collection[Kind], own: Collection[str]) -> list[str]:
    """Titles of others' objects of these kinds; a line that says so where they cannot be listed.

    Parameters:
        own: titles of the stack's objects.
    """
    return _others(lambda: _jobs(ClusterApi.at(address, timeout_s=TIMEOUT_S), kinds), own)


def in_namespace(address: ApiAddress, namespace: str, own: Collection[str]) -> list[str]:
    """Titles of others' objects in it; a line that says so where they cannot be listed.

    Parameters:
        own: titles of the stack's objects.
    """
    return _others(lambda: _objects(ClusterApi.at(address, timeout_s=TIMEOUT_S), namespace), own)


def _others(ask: Callable[[], Iterator[Manifest]], own: Collection[str]) -> list[str]:
    try:
        return sorted(title(each) for each in ask() if title(each) not in own and not _goes_with_others(each))
    except (ApiException, ConfigException, OSError, urllib3.exceptions.HTTPError) as error:
        reason = f"{error.status} {error.reason}" if isinstance(error, ApiException) else type(error).__name__
        return [f"unknown: the cluster cannot be asked ({reason})"]


def _goes_with_others(each: Manifest) -> bool:
    """Whether an object is another's part, Kubernetes' own, or a passing helper of ours."""
    kind, metadata = each["kind"], each["metadata"]
    is_helper = kind == "Pod" and metadata["name"].startswith(reader_pod.NAME_PREFIX)
    return bool(metadata.get("ownerReferences")) or is_helper or (kind, metadata["name"]) in EVERYWHERE


def _jobs(api: ClusterApi, kinds: Collection[Kind]) -> Iterator[Manifest]:
    for kind in kinds:
        yield from _of_kind(api, kind)


def _of_kind(api: ClusterApi, kind: Kind) -> list[Manifest]:
    try:
        return api.listed(kind)
    except ApiException as error:
        if error.status != NOT_FOUND:  # without the kind there are no jobs
            raise
        return []


def _objects(api: ClusterApi, namespace: str) -> Iterator[Manifest]:
    for kind in NAMESPACED:
        yield from api.listed(kind, namespace)
    yield from (each for each in _jobs(api, EVERY) if each["metadata"]["namespace"] == namespace)


@errors_as_text(ConfigError)
def main(name: str) -> int:
    """Print who else uses what the stack `name` has installed; the exit status.

    Of the stack file only what tells its cluster counts: a stack whose job or image is wrong can be taken down.
    """
    sections = cluster_access.valid_sections(paths.stack_file(name))
    address = addresses.of_cluster(sections.cluster, name)
    print(json.dumps(users(address, json.load(sys.stdin), sections.operator.api)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

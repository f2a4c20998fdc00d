"""Finds others' objects that depend on an object of the stack.

The deletion of the stack's object would delete these objects, or would hang because of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from infra.clusters import addresses
from infra.config import cluster_access
from infra.config.load import stack_name
from infra.config.operator import OperatorApi
from infra.objects import job_kinds
from infra.objects.job_kinds import DEFINITION, OF_API, SHARED
from infra.objects.kinds import CLAIM, CONFIG_MAP, DEPLOYMENT, JOB, NAMESPACE, POD, SECRET, Kind, title
from infra.objects.labels import MANAGED_BY, job_of
from infra.objects.look import ForbiddenError, Look
from infra.objects.manifest import Manifest
from infra.run import reader_pod
from infra.volumes import pods_with_claim

NAMESPACED = (
    *(CLAIM, CONFIG_MAP, DEPLOYMENT, JOB, POD, SECRET, Kind.of("Service", "v1")),
    *(Kind.of(each, "apps/v1") for each in ("DaemonSet", "ReplicaSet", "StatefulSet")),
    *(Kind.of("CronJob", "batch/v1"), Kind.of("Ingress", "networking.k8s.io/v1")),
)
# ConfigMaps that Kubernetes, Istio and OpenShift create in every namespace.
EVERYWHERE = {"kube-root-ca.crt", "istio-ca-root-cert", "openshift-service-ca.crt"}
# Annotations of the service accounts' Secrets. Old Kubernetes and OpenShift create such Secrets in every namespace.
TOKENS = {"kubernetes.io/service-account.name", "openshift.io/internal-registry-auth-token.service-account"}
DEFAULT = "default"
# Kinds that are installed for all users of a cluster, Kueue included, and kinds that an earlier release installed.
EVERY = (*SHARED, *job_kinds.QUEUE_KINDS, *job_kinds.GANG_KINDS)
OF_A_NAMESPACE = (*SHARED, job_kinds.WORKLOAD, job_kinds.LOCAL_QUEUE, *job_kinds.GANG_KINDS)
# A kind that the server has, with its objects.
Listed = tuple[Kind, list[Manifest]]


def of(look: Look, titles: Collection[str], own: Collection[str], without: str = "") -> list[str]:
    """Titles of others' objects that depend on these objects of the stack. Raises UnknownError.

    Parameters:
        titles: objects of the kinds of DEPENDENTS.
        own: titles of the stack's objects.
        without: what the error advises a user who may not list the dependents.
    """
    return sorted(
        other
        for kind, find in DEPENDENTS.items()
        if (places := [each.partition("/")[2] for each in titles if each.startswith(f"{kind}/")])
        for other in find(look, places, own, without)
    )


def of_stack(file: Path, own: Collection[str], show: Callable[[str], None]) -> dict[str, Any]:
    """As `users`, for the stack of a file. It reads no job of the file: `make down` works although a job is wrong.

    Raises ConfigError and UnknownError.

    Parameters:
        show: gets a line when the API server goes away, and one when it is back.
    """
    sections = cluster_access.valid_sections(file)
    look = Look(addresses.of_cluster(sections.cluster, stack_name(file)), show)
    return users(look, own, sections.operator.api)


def users(look: Look, own: Collection[str], api: OperatorApi = OperatorApi.V1) -> dict[str, Any]:
    """Others' objects in four groups: `jobs`; `queues`, the objects that need Kueue or the stack's quota; `namespaces`,
    the objects by namespace; `claims`, the pods by claim.

    Each entry is a title, `Kind/namespace/name`. If the user may not list a kind, an entry says so, because others may
    have objects of this kind. Raises UnknownError if the server does not answer.

    Parameters:
        own: titles of the stack's objects.
        api: the API of the stack file. Others' jobs of this API count if the stack has an operator, which means that
            `own` has a Deployment. Others' objects of a kind count, too, if the stack created the definition of this
            kind.
    """

    def ask(*titles: str) -> list[str]:
        try:
            return of(look, titles, own)
        except ForbiddenError as error:
            return [f"unknown: {str(error).splitlines()[0]}"]

    def made(kind: Kind) -> list[str]:
        return [each for each in own if each.startswith(f"{kind.kind}/")]

    def defined(kinds: Iterable[Kind]) -> list[str]:
        return [f"{DEFINITION}/{each.crd}" for each in kinds]

    quota = [each for kind in job_kinds.QUEUE_KINDS for each in made(kind)]
    of_kueue = defined(job_kinds.QUEUE_KINDS)
    own_api = {f"{DEFINITION}/{each}" for each in OF_API[api].crds} if made(DEPLOYMENT) else set()
    return {
        "jobs": ask(
            *(each for each in defined((*SHARED, *job_kinds.GANG_KINDS)) if each in own_api or each in own)
        ),
        "queues": ask(*(each for each in of_kueue if each in own), *quota),
        "namespaces": {each.partition("/")[2]: ask(each) for each in made(NAMESPACE)},
        "claims": {each: ask(each) for each in made(CLAIM)},
    }


def _of_definitions(look: Look, names: Collection[str], own: Collection[str], without: str) -> Iterable[str]:
    return _others(list(_served(look, [each for each in EVERY if each.crd in names], without)), own)


def _in_namespaces(look: Look, names: Collection[str], own: Collection[str], without: str) -> Iterable[str]:
    for each in names:
        yield from _others(list(_objects(look, each, without)), own)


def _mounting(look: Look, claims: Collection[str], own: Collection[str], without: str) -> Iterable[str]:
    for each in claims:
        namespace, claim = each.split("/")
        pods = pods_with_claim(claim, look.listed(POD, namespace, without=without) or [])
        yield from (
            title({"kind": POD.kind, **pod}) for pod in pods if not _ends_with_us(pod["metadata"], own)
        )


def _in_cluster_queues(
    look: Look, names: Collection[str], own: Collection[str], without: str
) -> Iterable[str]:
    """LocalQueues of these ClusterQueues, and workloads that these queues admitted."""

    def queue_of(each: Manifest) -> object:
        if each["kind"] == job_kinds.LOCAL_QUEUE.kind:
            return each["spec"].get("clusterQueue")
        return ((each.get("status") or {}).get("admission") or {}).get("clusterQueue")

    kinds = (job_kinds.LOCAL_QUEUE, job_kinds.WORKLOAD)
    listed = [
        (kind, [each for each in found if queue_of(each) in names])
        for kind, found in _served(look, kinds, without)
    ]
    return _others(listed, own)


def _in_local_queues(look: Look, names: Collection[str], own: Collection[str], without: str) -> Iterable[str]:
    """Workloads in these queues that have not ended."""
    for place in names:
        namespace, name = place.split("/")
        for kind, found in _served(look, [job_kinds.WORKLOAD], without, namespace):
            waiting = [
                each for each in found if each["spec"].get("queueName") == name and not _is_finished(each)
            ]
            yield from _others([(kind, waiting)], own)


def _is_finished(workload: Manifest) -> bool:
    conditions = (workload.get("status") or {}).get("conditions") or []
    return any(each["type"] == "Finished" and each["status"] == "True" for each in conditions)


def _with_flavors(look: Look, names: Collection[str], own: Collection[str], without: str) -> Iterable[str]:
    """ClusterQueues that have a quota of these flavors."""

    def flavors_of(queue: Manifest) -> Iterator[str]:
        for group in queue["spec"].get("resourceGroups") or []:
            yield from (each["name"] for each in group["flavors"])

    for kind, found in _served(look, [job_kinds.CLUSTER_QUEUE], without):
        yield from _others(
            [(kind, [each for each in found if not {*names}.isdisjoint(flavors_of(each))])], own
        )


DEPENDENTS: dict[str, Callable[[Look, Collection[str], Collection[str], str], Iterable[str]]] = {
    NAMESPACE.kind: _in_namespaces,
    DEFINITION: _of_definitions,
    CLAIM.kind: _mounting,
    job_kinds.CLUSTER_QUEUE.kind: _in_cluster_queues,
    job_kinds.LOCAL_QUEUE.kind: _in_local_queues,
    job_kinds.FLAVOR.kind: _with_flavors,
}
"""Kind of an object -> the function that finds others' objects that depend on the object.

The function gets the object's title without the kind.
"""


def _ends_with_us(pod: Manifest, own: Collection[str]) -> bool:
    """Whether a pod ends by itself, or is deleted with an object of ours."""
    labels, owners = pod.get("labels") or {}, pod.get("ownerReferences") or []
    job = job_of(labels)
    makers = [(each["kind"], each["name"]) for each in owners] + [
        (each.kind, job) for each in OF_API.values()
    ]
    titles = {title({"kind": kind, "metadata": {**pod, "name": name}}) for kind, name in makers}
    reads_for_us = MANAGED_BY.items() <= labels.items() and not owners and not job
    return "deletionTimestamp" in pod or reads_for_us or not titles.isdisjoint(own)


def _others(listed: list[Listed], own: Collection[str]) -> list[str]:
    kinds = {(kind.group, kind.kind) for kind, _ in listed}
    return sorted(
        title(each)
        for _, objects in listed
        for each in objects
        if title(each) not in own and not _goes_with_owners(each, kinds, own) and not _is_system(each)
    )


def _goes_with_owners(each: Manifest, kinds: Collection[tuple[str, str]], own: Collection[str]) -> bool:
    """Whether each owner of an object is the stack's, or has a kind of `kinds` (group and kind).

    The caller judges an owner of such a kind by itself, and leaves its object out.
    """
    metadata = each["metadata"]
    owners = metadata.get("ownerReferences") or []
    return bool(owners) and all(
        (owner["apiVersion"].rpartition("/")[0], owner["kind"]) in kinds
        or title({"kind": owner["kind"], "metadata": {**metadata, "name": owner["name"]}}) in own
        for owner in owners
    )


def _is_system(each: Manifest) -> bool:
    """Whether the cluster itself created an object, or the object is a temporary helper pod of ours."""
    kind, metadata = each["kind"], each["metadata"]
    is_helper = kind == POD.kind and metadata["name"].startswith(reader_pod.NAME_PREFIX)
    is_token = kind == SECRET.kind and not TOKENS.isdisjoint(metadata.get("annotations") or {})
    return is_helper or is_token or (kind == CONFIG_MAP.kind and metadata["name"] in EVERYWHERE)


def _served(look: Look, kinds: Collection[Kind], without: str, namespace: str = "") -> Iterator[Listed]:
    """The objects of each kind that the server has."""
    for kind in kinds:
        found = look.listed(kind, namespace, without=without)
        if found is not None:
            yield kind, found


def _objects(look: Look, namespace: str, without: str) -> Iterator[Listed]:
    for kind, found in _served(look, (*NAMESPACED, *OF_A_NAMESPACE), without, namespace):
        has_copies = kind == CONFIG_MAP and namespace != DEFAULT
        yield kind, _without_copies(look, found) if has_copies else found


def _without_copies(look: Look, maps: list[Manifest]) -> list[Manifest]:
    """`maps` without copies of ConfigMaps that `default` has, too: a controller keeps copies in every namespace."""
    try:
        known = {each["metadata"]["name"]: _content(each) for each in look.listed(CONFIG_MAP, DEFAULT) or []}
    except ForbiddenError:
        known = {}  # then copies count as others' objects, too
    return [each for each in maps if known.get(each["metadata"]["name"]) != _content(each)]


def _content(config_map: Manifest) -> list[Any]:
    return [config_map.get("data"), config_map.get("binaryData")]

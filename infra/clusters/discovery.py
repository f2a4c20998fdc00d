"""Reads an existing cluster before anything is registered: its objects, ours and others', and its nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from infra.config.names import quantity
from infra.config.resources import counted
from infra.objects import job_kinds
from infra.objects.job_kinds import PYTORCHJOB, JobKind
from infra.objects.kinds import CRD, DEPLOYMENT, NAMESPACE, NODE, Kind, is_leaving
from infra.objects.look import ForbiddenError, Look

# The operator's option for its gang scheduler (cmd/training-operator.v1/main.go).
GANG_FLAG = "--gang-scheduler-name="
SHARED = {each.kind: each for each in (job_kinds.FLAVOR, job_kinds.PRIORITY_CLASS)}
Objects = list[dict[str, Any]]
# Whether a live object, with its kind, is this stack's.
IsOurs = Callable[[dict[str, Any]], bool]


@dataclass(frozen=True)
class ClusterContents:
    """The contents of the cluster that are not this stack's.

    Parameters:
        problem: why no cluster can be asked; else empty.
        namespaces: existing namespaces among those asked for.
        leaving: which of the namespaces asked for are being deleted, this stack's included.
        crd: whether the definition of the stack's kind of job exists.
        operator: whether its controller exists.
        beneath: whether the definition of the kind in `JobKind.beneath` exists.
        gang_scheduler: whether an operator starts all replicas of a job together.
        kueue, kueue_crds: whether Kueue and its definitions exist.
        shared: titles of the stack's flavors and priority classes that somebody else has created.
        offered: sum of the nodes' GPUs and other counted resources, used or free; None if nodes were not listed.
        nodes: those that take new pods.
    """

    problem: str = ""
    namespaces: frozenset[str] = field(default_factory=frozenset)
    leaving: frozenset[str] = frozenset()
    crd: bool = False
    operator: bool = False
    beneath: bool = False
    gang_scheduler: bool = False
    kueue: bool = False
    kueue_crds: bool = False
    shared: frozenset[str] = frozenset()
    offered: Mapping[str, Decimal] | None = field(default_factory=dict)
    nodes: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Question:
    """What a stack asks a cluster. It asks only for what it needs: a user may have rights in only one namespace.

    Parameters:
        namespaces: the namespaces that the stack creates if they are missing.
        operator: ask for an operator. If False, ask only whether the server has the stack's kind of job. If it has,
            somebody else's operator with a gang scheduler is assumed.
        nodes: ask for the nodes and their resources.
        kind: of the stack's jobs.
        kueue: ask for Kueue. If the user may not ask, the server's kinds decide: with Kueue's kinds, Kueue is assumed.
        shared: titles of flavors and priority classes that somebody else may have created, too.
    """

    namespaces: frozenset[str] = frozenset()
    operator: bool = True
    nodes: bool = True
    kind: JobKind = PYTORCHJOB
    kueue: bool = False
    shared: frozenset[str] = frozenset()


def read_contents(look: Look, is_ours: IsOurs, question: Question) -> ClusterContents:
    """Read the cluster. Raises UnknownError if it does not answer.

    If the user may not list the operator or its CRD, ask instead whether the server has the stack's kind of job: if it
    has, somebody else's operator is assumed. A namespace that the user may not read is assumed to exist.
    """

    def listed(is_asked: bool, kind: Kind, **selectors: str) -> Objects | None:
        """The objects; None if they are not asked for, or the user may not list them."""
        if not is_asked:
            return None
        try:
            return look.listed(kind, **selectors)
        except ForbiddenError:
            return None

    installs, lower = question.operator, question.kind.beneath
    crds = listed(installs, CRD, fields=f"metadata.name={question.kind.crds[-1]}")
    operators = listed(installs, DEPLOYMENT, labels=question.kind.selector)
    beneath = listed(
        installs and lower is not None, CRD, fields=f"metadata.name={lower.crd if lower else ''}"
    )
    kueues = listed(question.kueue, DEPLOYMENT, labels=job_kinds.KUEUE_SELECTOR)
    kueue_crds = listed(question.kueue, CRD, fields=f"metadata.name={job_kinds.CLUSTER_QUEUE.crd}")
    kueue_is_served = (
        question.kueue and (kueues is None or kueue_crds is None) and look.serves(job_kinds.CLUSTER_QUEUE)
    )
    nodes = listed(question.nodes, NODE)
    namespaces = list(_there(look, question.namespaces))
    found = contents_of(is_ours, namespaces, crds or [], operators or [], nodes or [])
    serves = (crds is None or operators is None) and look.serves(question.kind)
    return replace(
        found,
        crd=serves if crds is None else found.crd,
        operator=serves if operators is None else found.operator,
        beneath=_is_foreign(is_ours, beneath or []),
        gang_scheduler=operators is None or found.gang_scheduler,
        kueue=kueue_is_served if kueues is None else bool(_foreign(is_ours, "Deployment", kueues)),
        kueue_crds=kueue_is_served if kueue_crds is None else _is_foreign(is_ours, kueue_crds),
        shared=frozenset(each for each in question.shared if _is_others(look, is_ours, each)),
        offered=None if nodes is None else found.offered,
    )


def _is_foreign(is_ours: IsOurs, crds: Objects) -> bool:
    return bool(_foreign(is_ours, "CustomResourceDefinition", crds))


def _foreign(is_ours: IsOurs, kind: str, objects: Objects) -> list[str]:
    return [each["metadata"]["name"] for each in objects if not is_ours({**each, "kind": kind})]


def _is_others(look: Look, is_ours: IsOurs, title: str) -> bool:
    """Whether a flavor or priority class is somebody else's.

    If the user may not read the object, it counts as somebody else's, except if the stack's state holds it. An object
    in the state stays this stack's: the update would delete it otherwise.
    """
    kind, name = title.split("/")
    try:
        found = look.get(SHARED[kind], name)
    except ForbiddenError:
        return not is_ours({"kind": kind, "metadata": {"name": name}})
    return found is not None and not is_ours({**found, "kind": kind})


def _containers(deployment: dict[str, Any]) -> Objects:
    pod = ((deployment.get("spec") or {}).get("template") or {}).get("spec") or {}
    return pod.get("containers") or []


def _there(look: Look, names: Collection[str]) -> Iterator[dict[str, Any]]:
    """The existing namespaces among `names`. A namespace that the user may not read is assumed to exist."""
    for name in sorted(names):
        try:
            found = look.get(NAMESPACE, name)
        except ForbiddenError:
            found = {"metadata": {"name": name}}
        if found is not None:
            yield found


def contents_of(
    is_ours: IsOurs,
    namespaces: list[dict[str, Any]],
    crds: list[dict[str, Any]],
    operators: list[dict[str, Any]],
    nodes: list[dict[str, Any]],
) -> ClusterContents:
    """The listed objects that are not this stack's, and the counted resources of `nodes`."""
    return ClusterContents(
        namespaces=frozenset(_foreign(is_ours, "Namespace", namespaces)),
        leaving=frozenset(each["metadata"]["name"] for each in namespaces if is_leaving(each)),
        crd=_is_foreign(is_ours, crds),
        operator=bool(_foreign(is_ours, "Deployment", operators)),
        gang_scheduler=any(_has_gang_scheduler(each) for each in operators),
        offered=_offered(nodes),
        nodes=tuple(node for node in nodes if not node["spec"].get("unschedulable")),
    )


def _offered(nodes: Objects) -> dict[str, Decimal]:
    found: dict[str, Decimal] = {}
    for node in nodes:
        for name, value in counted(node["status"].get("allocatable", {})).items():
            found[name] = found.get(name, Decimal(0)) + quantity(value)
    return found


def _has_gang_scheduler(operator: dict[str, Any]) -> bool:
    words = [
        word
        for each in _containers(operator)
        for word in [*(each.get("command") or []), *(each.get("args") or [])]
    ]
    return any(word.startswith(GANG_FLAG) and word != GANG_FLAG for word in words)

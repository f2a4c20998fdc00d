"""The content of the stack's own state. The program reads it before it registers anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi

from infra import agreed
from infra.cluster_kinds import ClusterKind
from infra.objects.job_kinds import NAMES, PYTORCHJOB
from infra.objects.kinds import CLAIM, VOLUME, title
from infra.objects.labels import QUEUED, RUN

# An invoke of Pulumi's engine (pkg/v3/resource/deploy/builtins.go): it reads the stack's last checkpoint.
READ = "pulumi:pulumi:readStackResourceOutputs"
STORAGE = (VOLUME.kind, CLAIM.kind)


@dataclass(frozen=True)
class StackState:
    """The stack in the state: its owner id, its Kubernetes objects, its cluster.

    Parameters:
        owner: None before the first update.
        objects: `Kind/namespace/name` of each.
        storage: `Kind/namespace/name` -> spec of each volume and claim.
        queued: `Kind/namespace/name` of each job in a Kueue queue -> the manifest that the job was created from.
        jobs: kind, namespace, name, uid and run of each job.
        finished: `Kind/namespace/name` of each succeeded job that is deleted after its end -> the job's run.
        cluster: whether the state has a provider for Kubernetes objects.
        clusters: kind -> properties of the cluster that the stack created or uses; two while one replaces the other.
    """

    owner: str | None = None
    objects: frozenset[str] = frozenset()
    storage: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    queued: Mapping[str, str] = field(default_factory=dict)
    jobs: tuple[Mapping[str, str], ...] = ()
    finished: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    cluster: bool = False
    clusters: Mapping[ClusterKind, Mapping[str, Any]] = field(default_factory=dict)


def read() -> StackState:
    """The content of the state. In an update with `--refresh`: from before the refresh, which is not written yet."""
    organization = pulumi.get_organization() or "organization"  # a file backend has none
    name = "/".join([organization, pulumi.get_project(), pulumi.get_stack()])
    answer: Any = pulumi.runtime.invoke(READ, {"stackName": name})
    return from_outputs((answer.value or {}).get("outputs") or {})


def from_outputs(resources: Mapping[str, Mapping[str, Any]]) -> StackState:
    """From the engine's answer: URN -> type and outputs."""
    resources = {urn: each for urn, each in resources.items() if each.get("outputs") is not None}

    def single(type_: str) -> Mapping[str, Any] | None:
        return next((each["outputs"] for each in resources.values() if each["type"] == type_), None)

    found = (each["outputs"] for each in resources.values() if each["type"].startswith(agreed.OBJECT))
    objects = {title(dict(each)): each for each in found if each.get("metadata")}
    return StackState(
        owner=(single(agreed.OWNER) or {}).get("owner"),
        objects=frozenset(objects),
        storage={name: each.get("spec") or {} for name, each in objects.items() if each["kind"] in STORAGE},
        queued=dict(_queued(objects)),
        jobs=tuple(_jobs(objects.values())),
        finished=dict(
            _finished(each["outputs"] for each in resources.values() if each["type"] == agreed.RUN)
        ),
        cluster=any(each["type"] == agreed.PROVIDER for each in resources.values()),
        clusters={kind: props for kind in ClusterKind if kind.resource and (props := single(kind.resource))},
    )


def _jobs(objects: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, str]]:
    for each in objects:
        metadata = each["metadata"]
        run = (metadata.get("labels") or {}).get(RUN)
        if each["kind"] in NAMES and run and metadata.get("uid"):
            place = {name: metadata[name] for name in ("namespace", "name", "uid")}
            yield {"kind": each["kind"], "run": run, **place}


def _finished(runs: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for each in filter(agreed.has_finished, runs):
        metadata = {"namespace": each["namespace"], "name": each["job"]}
        yield title({"kind": each.get("kind") or PYTORCHJOB.kind, "metadata": metadata}), each


def _queued(objects: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for name, each in objects.items():
        if made_from := (each["metadata"].get("annotations") or {}).get(QUEUED):
            yield name, made_from

"""The effects of a change on a running stack: replaced objects, losses, and the cost of the new training.

This module also finds changed versions of operators, and stacks that share an operator: a cluster has each only once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.config import ConfigError, Stack, from_file
from infra.config.job import JobConfig
from infra.config.section import Outcome
from infra.config.storage_kinds import StorageKind
from infra.objects.job_kinds import NAMES, RUNTIME
from infra.objects.kinds import title
from infra.objects.manifest import Manifest
from infra.review import folder
from infra.review.key_changes import KeyChange
from infra.review.object_changes import ObjectChange
from infra.upstream import vendored

# Kinds of the stack's objects that each outcome replaces, with the objects that depend on them.
REPLACED: dict[Outcome, tuple[str, ...]] = {
    Outcome.JOB_REPLACED: (*NAMES, RUNTIME),
    Outcome.VOLUME_REPLACED: ("PersistentVolume", "PersistentVolumeClaim", "Job", *NAMES, RUNTIME),
}
JOBS = (*NAMES, RUNTIME, "Job")
MOST_NAMED = 40
LOST_FIELDS = (
    "Fields that the older definitions of {} do not have, in every job of the cluster: "
    "the API server drops them."
)


def most_pods(job: JobConfig) -> int:
    """The most pods of a training at once. An elastic job may grow to maxReplicas workers."""
    most = job.elastic_policy.max_replicas if job.elastic_policy else None
    return (job.replicas.master or 0) + max(job.replicas.worker or 0, most or 0)


def replaced(
    keys: Sequence[KeyChange], objects: Iterable[ObjectChange], there: Sequence[Manifest]
) -> list[str]:
    """Titles of the objects in `there`, the rendering of another revision, that may be replaced.

    A job with another spec is always one of them, also if only the image's contents changed.
    """
    changed = {each.title for each in objects if each.fields and _has_another_spec(each)}
    for change in keys:
        if change.outcome is Outcome.CLUSTER_REPLACED:
            return [title(each) for each in there]
        kinds = REPLACED.get(change.outcome, ())
        of_job = change.job
        changed |= {
            title(each)
            for each in there
            if each["kind"] in kinds and of_job in (None, each["metadata"]["name"])
        }
    return [title(each) for each in there if title(each) in changed]


def replaces_cluster(stack: Stack, keys: Iterable[KeyChange]) -> bool:
    """Whether `keys` replace the cluster of `stack`. Somebody else's cluster is never replaced."""
    return stack.cluster.kind.is_ours and any(each.outcome is Outcome.CLUSTER_REPLACED for each in keys)


def _has_another_spec(change: ObjectChange) -> bool:
    """Whether the object's spec changed, and the program replaces objects of its kind instead of changing them."""
    kind = (change.before or {}).get("kind")
    return kind in JOBS and any(path.startswith("spec.") for path, _, _ in change.fields)


def losses(
    stack: Stack, keys: Sequence[KeyChange], again: Sequence[str], objects: Sequence[ObjectChange]
) -> Iterator[str]:
    """One sentence for each loss by the change, or for a feared loss that does not happen.

    Parameters:
        stack: the stack before the change.
        again: titles of the replaced objects.
    """
    outcomes = {each.outcome for each in keys}
    if Outcome.CLUSTER_REPLACED in outcomes:
        yield _with_the_cluster(stack)
    if {Outcome.VOLUME_REPLACED, Outcome.CLUSTER_REPLACED} & outcomes:
        yield _files(stack, Outcome.CLUSTER_REPLACED in outcomes)
    if any(each.partition("/")[0] in NAMES for each in again):
        yield "The old jobs' pods with their logs, and each running training. Finished runs stay on the volume."
    if any(each.key.startswith("storage.keepRuns.") for each in keys):
        yield "Finished runs that exceed `storage.keepRuns`, when the next run of their job succeeds."
    gone = [each.title for each in objects if each.after is None]
    if gone and Outcome.CLUSTER_REPLACED not in outcomes:
        shown = [*(f"`{each}`" for each in gone[:MOST_NAMED]), *(["more"] if len(gone) > MOST_NAMED else [])]
        yield f"The removed objects: {', '.join(shown)}."


def _files(stack: Stack, with_cluster: bool) -> str:
    if with_cluster and stack.cluster.kind.traits.goes_whole and stack.storage.kind is StorageKind.CLASS:
        return (
            f"The files of claim {stack.claim}, if its storage class keeps them on the nodes of the cluster."
        )
    return "No file: models and runs stay in their folder. No file is moved to another folder or cluster."


def _with_the_cluster(stack: Stack) -> str:
    if not stack.cluster.kind.is_ours:
        return "The stack's objects in the old cluster; its nodes keep the files."
    return (
        f"Every object in cluster {stack.cluster_name}, also objects of others. If there are such objects, `make up` "
        "refuses; `make up REPLACE_CLUSTER=yes` deletes them, too."
    )


@dataclass(frozen=True)
class VersionChange:
    """An upstream project with another version than before."""

    project: str
    before: str
    after: str

    @property
    def is_down(self) -> bool:
        """Whether the new version is the older one."""
        return _order(self.after) < _order(self.before)


def _order(version: str) -> list[int]:
    return [int(each) for each in re.findall(r"[0-9]+", version)]


def version_changes(stack: Stack, before: Path) -> list[VersionChange]:
    """The projects that `stack` installs in another version than the version in the clone `before`."""
    found = []
    for project in folder.projects_of(stack):
        now = vendored.folder(project).name
        for each in sorted((before / folder.UPSTREAM).glob(f"{project}-[0-9]*")):
            if each.name != now:
                found.append(
                    VersionChange(project, *(name.removeprefix(f"{project}-") for name in (each.name, now)))
                )
    return found


def stacks_beside(stack: Stack, file: Path) -> list[str]:
    """Names of the other stacks beside `file` that are on the cluster of `stack`."""
    found = []
    for other in sorted(file.parent.glob("Pulumi.*.yaml")):
        try:
            each = from_file(other)
        except ConfigError:
            continue
        if each.name != stack.name and _cluster(each) == _cluster(stack):
            found.append(each.name)
    return found


def _cluster(stack: Stack) -> tuple[str, dict[str, str]]:
    return stack.cluster.kind.value, stack.cluster.named(stack.name)

"""Kustomizations beside a rendering, with the changes for GitOps engines: names of jobs, and annotations.

A finished PyTorchJob does not train again when its spec changes, a TrainJob cannot change most of its spec, and a
batch/v1 Job refuses another template. So each run has its own job: the engine creates the new job, and prunes the old.

A TrainJob's runtime also has another name for each run. Trainer reads runtimes through a cache: if a runtime changed
under the same name, a new run could get the image of the run before. A runtime with a new name is read as a whole.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from infra import operators, stack_plan
from infra.config import Stack
from infra.config.job import QUEUE_LABEL
from infra.config.names import BATCH_NAME_LENGTH
from infra.config.trainjobs import name_length
from infra.job.manifest import run_of
from infra.job.queue import SUSPEND
from infra.job.run_id import DIGITS
from infra.objects.job_kinds import (
    CLUSTER_QUEUE,
    FLAVOR,
    JOBSET,
    LOCAL_QUEUE,
    NAMES,
    PRIORITY_CLASS,
    PYTORCHJOB,
    RUNTIME,
    TRAINJOB,
    JobKind,
)
from infra.objects.kinds import CRD, SECRET, Kind
from infra.objects.labels import MANAGED_BY
from infra.objects.manifest import Manifest
from infra.review.text import document
from infra.stack_plan import Planned
from infra.trainer_controller.patches import INJECTED
from storage.manifests import is_provisioned

GROUPS = KEPT, GUARD, OPERATOR, JOBS = "kept", stack_plan.GUARD, operators.OPERATOR, "jobs"
NEVER_PRUNED = {
    "argocd.argoproj.io/sync-options": "Prune=false,Delete=false",
    "kustomize.toolkit.fluxcd.io/prune": "disabled",
}
# These objects are too long for the annotation in which a client would store them.
LONG = {"argocd.argoproj.io/sync-options": "Prune=false,Delete=false,ServerSideApply=true"}
# Argo CD applies a wave when the wave before is healthy: the volume is prepared, the operator answers, and the runtime
# exists, without which Trainer's webhook refuses the TrainJob. It prunes in the opposite order.
SYNC_WAVE = "argocd.argoproj.io/sync-wave"
WAVE = f"/metadata/annotations/{SYNC_WAVE.replace('/', '~1')}"
WAVES = {PYTORCHJOB.kind: "1", RUNTIME: "1", TRAINJOB.kind: "2"}
# Kueue's webhook refuses each of them before Kueue is healthy.
QUOTA_WAVE, QUOTA_KINDS = "1", (FLAVOR, PRIORITY_CLASS, CLUSTER_QUEUE, LOCAL_QUEUE)
KUSTOMIZATION = "kustomization.yaml"


def obstacle(stack: Stack) -> str | None:
    """Why an engine cannot apply the stack's jobs; None if it can."""
    if stack.matrix and stack.matrix.max_parallel:
        return "matrix.maxParallel: an engine applies all jobs at once; to limit them by Kueue, set job.queue"
    for job in stack.jobs:
        longest = name_length(stack.operator.api, job) - len("-") - DIGITS
        if job.run_policy.ttl_seconds_after_finished is not None:
            return f"job {job.name} has ttlSecondsAfterFinished: an engine would create the deleted job again and again"
        if len(job.name) > longest:
            return f"the name of job {job.name} is longer than {longest} characters: the run's digest would not fit"
    return None


def group_of(planned: Planned) -> str:
    """The group of an object. Engines delete objects only of the jobs' group; a job's Secret is in another group."""
    if planned.phase == GUARD:
        return GUARD
    if planned.phase in operators.PARTS:
        return OPERATOR
    is_kept = (
        planned.phase in (stack_plan.SPACES, stack_plan.VOLUMES) or planned.manifest["kind"] == SECRET.kind
    )
    return KEPT if is_kept else JOBS


def operations(manifest: Manifest) -> list[dict[str, str]]:
    """The changes of an object of the jobs' group for an engine, in RFC 6902: name, annotations, and references.

    `suspend` of a job in a queue is removed: an engine would set it again and again, and Kueue's webhook sets it at the
    job's creation.
    """
    kind, spec = manifest["kind"], manifest["spec"]
    name = _named_by_spec(manifest) if kind == "Job" else run_of(manifest)
    found = [{"op": "replace", "path": "/metadata/name", "value": name}]
    if kind in WAVES:
        found.append({"op": "add", "path": WAVE, "value": WAVES[kind]})
    if kind == TRAINJOB.kind:
        found.append({"op": "replace", "path": "/spec/runtimeRef/name", "value": name})
    if QUEUE_LABEL in manifest["metadata"].get("labels", {}) and "suspend" in spec.get("runPolicy", spec):
        found.append({"op": "remove", "path": f"/{SUSPEND[kind].replace('.', '/')}"})
    return found


def _named_by_spec(job: Manifest) -> str:
    digest = hashlib.sha256(json.dumps(job["spec"], sort_keys=True).encode()).hexdigest()[:DIGITS]
    kept = job["metadata"]["name"][: BATCH_NAME_LENGTH - len("-") - DIGITS]
    return f"{kept}-{digest}"


def kustomizations(groups: Mapping[str, Sequence[Manifest]], crds: Sequence[str]) -> dict[str, str]:
    """Path below the stack's folder -> kustomization: for the whole stack, for the kept objects, and for the jobs.

    Parameters:
        groups: name -> objects, in the order in which they are applied; the operator's group is without its CRDs.
        crds: the folders with kustomizations of upstream's CRDs, relative to the stack's folder.
    """
    (kind,) = {NAMES[each["kind"]] for each in groups[JOBS] if each["kind"] in NAMES}
    # kustomize's own order has a TrainJob before its TrainingRuntime.
    order = {"sortOptions": {"order": "fifo"}} if kind is TRAINJOB else {}
    own = {
        KEPT: kustomization(
            [f"{KEPT}.yaml"], commonAnnotations=NEVER_PRUNED, **_with_their_pods(groups, kind)
        ),
        JOBS: kustomization([f"{JOBS}.yaml"], patches=[_renaming(each) for each in groups[JOBS]], **order),
    }
    resources = [each if each in own else file_of(each) for each in groups]
    made = [*(_as_registered(kind) if crds else []), *_after_kueue(groups.get(OPERATOR, ()))]
    patches = {"patches": made} if made else {}
    found = {f"{name}/{KUSTOMIZATION}": text for name, text in own.items() if name in groups}
    return {KUSTOMIZATION: kustomization([*crds, *resources], **patches, **order), **found}


def _with_their_pods(groups: Mapping[str, Sequence[Manifest]], kind: JobKind) -> dict[str, Any]:
    """Patches that put a provisioned claim into the jobs' wave; none if a preparing Job mounts the claim earlier.

    Many storage classes create a volume for the first pod that mounts it, and Argo CD waits for pending objects.
    """
    if any(each["kind"] == "Job" for each in groups[JOBS]):
        return {}
    wave = _patch([{"op": "add", "path": WAVE, "value": WAVES[kind.kind]}])
    waiting = [each["metadata"] for each in groups.get(KEPT, ()) if is_provisioned(each)]
    targets = [{"kind": "PersistentVolumeClaim", "name": each["name"]} for each in waiting]
    return {"patches": [{"target": each, "patch": wave} for each in targets]} if targets else {}


def _after_kueue(objects: Sequence[Manifest]) -> list[dict[str, Any]]:
    """Patches that put the quota into a later wave than Kueue."""
    there = {each["kind"] for each in objects}
    metadata = {"name": "every", "annotations": {SYNC_WAVE: QUOTA_WAVE}}
    return [_merging(each, metadata) for each in QUOTA_KINDS if each.kind in there]


def _merging(kind: Kind, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The patch that merges `metadata` into every object of `kind`. A patch needs a name, which is ignored here."""
    every = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
    return {"target": {"kind": kind.kind}, "patch": document(every)}


def file_of(group: str) -> str:
    """The path of a group's objects below the stack's folder."""
    return f"{group}/{group}.yaml"


def _renaming(manifest: Manifest) -> dict[str, Any]:
    """The patch with the changes of an object for an engine."""
    target = {"kind": manifest["kind"], "name": manifest["metadata"]["name"]}
    return {"target": target, "patch": _patch(operations(manifest))}


def _patch(operations: Iterable[dict[str, str]]) -> str:
    """The operations, each on one line."""
    return "".join(f"- {json.dumps(each)}\n" for each in operations)


def _as_registered(kind: JobKind) -> list[dict[str, Any]]:
    """Patches of upstream's CRDs: the same changes as the program makes, and annotations against pruning."""
    metadata = {"name": kind.crd, "labels": MANAGED_BY, "annotations": NEVER_PRUNED | LONG}
    found = [_merging(CRD, metadata)]
    if JOBSET.crd in kind.crds:
        # Not by null: kustomize writes null into an annotation as text.
        paths = (f"/metadata/annotations/{INJECTED.replace('/', '~1')}", "/spec/conversion")
        dropped = _patch({"op": "remove", "path": path} for path in paths)
        found.append({"target": {"kind": CRD.kind, "name": JOBSET.crd}, "patch": dropped})
    return found


def kustomization(resources: Sequence[str], **options: Any) -> str:
    """A Kustomization of `resources`, files and folders, with further fields."""
    head = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    return document({**head, "resources": list(resources), **options})

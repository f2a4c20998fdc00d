"""What engines that reconcile apply: the rendering, with job names that end in what a new object is needed for.

A finished PyTorchJob whose spec changes trains nothing, a TrainJob keeps most of its spec for life, and a batch/v1 Job
refuses another template. So each run has a job of its own: the engine makes the new one, and prunes the old.

A TrainJob's runtime has a name of its own for each run, too. Trainer reads runtimes through a cache: a runtime that
changed under its name could give a new run the image of the one before. One that is new is found whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from infra.config import Stack
from infra.config.names import BATCH_NAME_LENGTH
from infra.config.trainjobs import name_length
from infra.job import queue
from infra.job.manifest import run_of
from infra.job.run_id import DIGITS
from infra.objects.job_kinds import JOBSET, NAMES, PYTORCHJOB, RUNTIME, TRAINJOB, JobKind
from infra.objects.labels import MANAGED_BY
from infra.objects.manifest import Manifest
from infra.review.text import text
from infra.trainer_controller.patches import INJECTED
from infra.training_operator.patches import CRD_KIND

KEPT, GUARD, OPERATOR, JOBS = "kept", "guard", "operator", "jobs"
ORDER = (KEPT, GUARD, OPERATOR, JOBS)
# Kinds of a stack's workload that hold what only people may delete.
KEPT_KINDS = ("Namespace", "PersistentVolume", "PersistentVolumeClaim", "Secret")
NEVER_PRUNED = {
    "argocd.argoproj.io/sync-options": "Prune=false,Delete=false",
    "kustomize.toolkit.fluxcd.io/prune": "disabled",
}
# Longer than the annotation in which a client would keep it.
LONG = {"argocd.argoproj.io/sync-options": "Prune=false,Delete=false,ServerSideApply=true"}
# Argo CD applies a wave when the one before is healthy: the volume is prepared, the operator answers, and the runtime
# is there, without which a webhook of Trainer's refuses the TrainJob. It prunes in the opposite order.
WAVES = {
    kind: {"argocd.argoproj.io/sync-wave": str(wave)}
    for kind, wave in {PYTORCHJOB.kind: 1, RUNTIME: 1, TRAINJOB.kind: 2}.items()
}
KUSTOMIZATION = "kustomization.yaml"


def obstacle(stack: Stack) -> str | None:
    """Why no engine can hold the stack's jobs; None where one can."""
    if stack.matrix and stack.matrix.max_parallel:
        return "matrix.maxParallel: an engine applies all jobs at once; job.queue has Kueue limit them"
    for job in stack.jobs:
        longest = name_length(stack.operator.api, job) - len("-") - DIGITS
        if job.run_policy.ttl_seconds_after_finished is not None:
            return f"job {job.name} has ttlSecondsAfterFinished: an engine would make it anew each time it vanishes"
        if len(job.name) > longest:
            return f"the name of job {job.name} is longer than {longest} characters: a run's id would not fit behind it"
    return None


def reconciled(manifest: Manifest) -> Manifest:
    """`manifest` as an engine applies it: another name for a job, and the engines' own annotations."""
    if manifest["kind"] in WAVES:
        renamed = _on_its_runtime(queue.left_to_kueue(manifest))
        return _with(renamed, WAVES[manifest["kind"]], name=run_of(manifest))
    if manifest["kind"] == "Job":
        return _with(manifest, {}, name=_named_by_spec(manifest))
    return _with(manifest, NEVER_PRUNED) if manifest["kind"] in KEPT_KINDS else manifest


def _on_its_runtime(manifest: Manifest) -> Manifest:
    """A TrainJob that refers to the runtime of its run; every other object as it is."""
    if manifest["kind"] != TRAINJOB.kind:
        return manifest
    spec = manifest["spec"]
    return {
        **manifest,
        "spec": {**spec, "runtimeRef": {**spec["runtimeRef"], "name": run_of(manifest)}},
    }


def _with(manifest: Manifest, annotations: dict[str, str], **metadata: Any) -> Manifest:
    before = manifest["metadata"]
    noted = {**before.get("annotations", {}), **annotations}
    return {**manifest, "metadata": {**before, **metadata, **({"annotations": noted} if noted else {})}}


def _named_by_spec(job: Manifest) -> str:
    digest = hashlib.sha256(json.dumps(job["spec"], sort_keys=True).encode()).hexdigest()[:DIGITS]
    kept = job["metadata"]["name"][: BATCH_NAME_LENGTH - len("-") - DIGITS]
    return f"{kept}-{digest}"


def files(
    workload: dict[str, Manifest], others: dict[str, dict[str, Manifest]], crds: list[str]
) -> dict[str, str]:
    """Path below the stack's folder -> contents: folders of objects, and a kustomization beside them.

    Parameters:
        workload: the name of a rendered file -> its object.
        others: the same of further folders; that of the operator is without its CRDs.
        crds: the folders with kustomizations of upstream's CRDs, as the stack's folder sees them.
    """
    folders = {name: KEPT if each["kind"] in KEPT_KINDS else JOBS for name, each in workload.items()}
    objects = {f"{folders[name]}/{name}": text(reconciled(each)) for name, each in workload.items()}
    for folder, found in others.items():
        objects |= {f"{folder}/{name}": text(each) for name, each in found.items()}
    order = sorted(objects, key=lambda name: ORDER.index(name.partition("/")[0]))
    (kind,) = {NAMES[each["kind"]] for each in workload.values() if each["kind"] in NAMES}
    whole = kustomization(
        [*crds, *order],
        **({"patches": _as_registered(kind)} if crds else {}),
        # By itself it would put a TrainJob before its TrainingRuntime.
        **({"sortOptions": {"order": "fifo"}} if kind is TRAINJOB else {}),
    )
    return {KUSTOMIZATION: whole, **objects}


def _as_registered(kind: JobKind) -> list[dict[str, Any]]:
    """Patches that make our CRDs of upstream's, and have no engine prune them."""
    # The name that a patch of every CRD has to have counts for nothing.
    metadata = {"name": kind.crd, "labels": MANAGED_BY, "annotations": NEVER_PRUNED | LONG}
    every = {"apiVersion": "apiextensions.k8s.io/v1", "kind": CRD_KIND, "metadata": metadata}
    found = [{"target": {"kind": CRD_KIND}, "patch": text(every)}]
    if JOBSET.crd in kind.crds:
        # Not by null, which kustomize writes into an annotation as a word.
        paths = (f"/metadata/annotations/{INJECTED.replace('/', '~1')}", "/spec/conversion")
        dropped = [{"op": "remove", "path": path} for path in paths]
        found.append({"target": {"kind": CRD_KIND, "name": JOBSET.crd}, "patch": json.dumps(dropped)})
    return found


def kustomization(resources: list[str], **options: Any) -> str:
    """A Kustomization of `resources`, files and folders, with further fields."""
    head = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    return text({**head, "resources": resources, **options})

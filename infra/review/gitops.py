"""What engines that reconcile apply: the rendering, with job names that end in what a new object is needed for.

A finished PyTorchJob whose spec changes trains nothing, and a batch/v1 Job refuses another template. So each run has a
job of its own: the engine makes the new one, and prunes the old.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from infra.config import Stack
from infra.config.names import BATCH_NAME_LENGTH, JOB_NAME_LENGTH
from infra.config.operator import OperatorApi
from infra.job import queue
from infra.job.manifest import run_of
from infra.job.run_id import DIGITS
from infra.objects import pytorchjob
from infra.objects.manifest import Manifest
from infra.review.text import text
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
# Argo CD applies a wave when the one before is healthy: the volume is prepared, and the operator answers.
AFTER_PREPARATION = {"argocd.argoproj.io/sync-wave": "1"}
KUSTOMIZATION = "kustomization.yaml"


def obstacle(stack: Stack) -> str | None:
    """Why no engine can hold the stack's jobs; None where one can."""
    if stack.operator.api is OperatorApi.V2:
        return "operator.api is v2: a TrainJob and its TrainingRuntime are not renamed for each run"
    longest = JOB_NAME_LENGTH - len("-") - DIGITS
    for job in stack.jobs:
        if job.run_policy.ttl_seconds_after_finished is not None:
            return f"job {job.name} has ttlSecondsAfterFinished: an engine would make it anew each time it vanishes"
        if len(job.name) > longest:
            return f"the name of job {job.name} is longer than {longest} characters: a run's id would not fit behind it"
    return None


def reconciled(manifest: Manifest) -> Manifest:
    """`manifest` as an engine applies it: another name for a job, and the engines' own annotations."""
    if manifest["kind"] == pytorchjob.KIND:
        return _with(queue.left_to_kueue(manifest), AFTER_PREPARATION, name=run_of(manifest))
    if manifest["kind"] == "Job":
        return _with(manifest, {}, name=_named_by_spec(manifest))
    return _with(manifest, NEVER_PRUNED) if manifest["kind"] in KEPT_KINDS else manifest


def _with(manifest: Manifest, annotations: dict[str, str], **metadata: Any) -> Manifest:
    before = manifest["metadata"]
    noted = {**before.get("annotations", {}), **annotations}
    return {**manifest, "metadata": {**before, **metadata, **({"annotations": noted} if noted else {})}}


def _named_by_spec(job: Manifest) -> str:
    digest = hashlib.sha256(json.dumps(job["spec"], sort_keys=True).encode()).hexdigest()[:DIGITS]
    kept = job["metadata"]["name"][: BATCH_NAME_LENGTH - len("-") - DIGITS]
    return f"{kept}-{digest}"


def files(
    workload: dict[str, Manifest], others: dict[str, dict[str, Manifest]], crd: str | None
) -> dict[str, str]:
    """Path below the stack's folder -> contents: folders of objects, and a kustomization beside them.

    Parameters:
        workload: the name of a rendered file -> its object.
        others: the same of further folders; that of the operator is without its CRD.
        crd: the folder of the CRD's kustomization, as the stack's folder sees it; None where the stack brings none.
    """
    folders = {name: KEPT if each["kind"] in KEPT_KINDS else JOBS for name, each in workload.items()}
    objects = {f"{folders[name]}/{name}": text(reconciled(each)) for name, each in workload.items()}
    for folder, found in others.items():
        objects |= {f"{folder}/{name}": text(each) for name, each in found.items()}
    order = sorted(objects, key=lambda name: ORDER.index(name.partition("/")[0]))
    return {KUSTOMIZATION: _kustomization([*([crd] if crd else []), *order], bool(crd)), **objects}


def _kustomization(resources: list[str], brings_crd: bool) -> str:
    metadata = {"name": pytorchjob.CRD, "annotations": NEVER_PRUNED | LONG}
    kept = {"apiVersion": "apiextensions.k8s.io/v1", "kind": CRD_KIND, "metadata": metadata}
    patch = {"target": {"kind": CRD_KIND}, "patch": text(kept)}
    return kustomization(resources, [patch] if brings_crd else [])


def kustomization(resources: list[str], patches: Iterable[dict[str, Any]] = ()) -> str:
    """A Kustomization of `resources`, files and folders, with `patches`."""
    head = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    return text({**head, "resources": resources, **({"patches": list(patches)} if patches else {})})

"""Checks the cluster and the models after `pulumi up`.

Pulumi relies on its state. It does not see that an object is being deleted, and a finalizer may hold such an object for
a long time.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from infra import paths, volumes
from infra.clusters import addresses
from infra.config import Stack
from infra.objects.job_kinds import NAMES, OF_API
from infra.objects.kinds import CLAIM, POD, VOLUME, is_leaving
from infra.objects.labels import MANAGED_BY, RUN, STACK, job_of
from infra.objects.look import Look
from infra.objects.retry import PATIENCE_S
from infra.run import job_status, reader_pod

Objects = list[dict[str, Any]]
# Objects that were deleted a moment ago, for example a reader pod, may exist for this long, in seconds.
SETTLE_S = 60
PAUSE_S = 1
RUNBOOK = "docs/runbooks/released-volume.md"


def objects(stack: Stack, look: Look) -> Objects:
    """The stack's volumes, claims, jobs and pods, each with its `kind`. Raises UnknownError."""
    namespace = stack.cluster.namespace
    selector = ",".join(f"{key}={value}" for key, value in MANAGED_BY.items())
    listed = [look.listed(CLAIM, namespace), look.listed(POD, namespace, labels=selector)]
    if volumes.own_volumes(stack):  # a user without own volumes may lack the right to list them
        listed.append(look.listed(VOLUME))
    listed.append(look.listed(OF_API[stack.operator.api], namespace))
    return [each for found in listed for each in found or [] if is_ours(each, stack)]


def is_ours(each: Mapping[str, Any], stack: Stack) -> bool:
    """Whether an object is the stack's, by its label or name. A pod belongs to a job, or is one of our reader pods."""
    metadata, labels = each["metadata"], each["metadata"].get("labels") or {}
    names = {volume.claim for volume in volumes.volumes(stack)}
    names |= {volume.name for volume in volumes.own_volumes(stack)}
    jobs = {job.name for job in stack.jobs}
    if each["kind"] == "Pod":
        return job_of(labels) in jobs or metadata["name"].startswith(reader_pod.NAME_PREFIX)
    if each["kind"] in NAMES:
        return metadata["name"] in jobs
    return labels.get(STACK) == stack.name or metadata["name"] in names


def cluster_findings(stack: Stack, found: Objects, left: Collection[str] = ()) -> Iterator[str]:
    """A sentence for each object that is missing, being deleted or not bound, and for each pending pod.

    Parameters:
        left: names of the jobs that may be missing.
    """
    there = {(each["kind"], each["metadata"]["name"]) for each in found}
    wanted = [("PersistentVolume", volume.name) for volume in volumes.own_volumes(stack)]
    wanted += [("PersistentVolumeClaim", volume.claim) for volume in volumes.volumes(stack)]
    wanted += [(OF_API[stack.operator.api].kind, job.name) for job in stack.jobs if job.name not in left]
    yield from (f"{kind} {name} is missing" for kind, name in wanted if (kind, name) not in there)
    for each in found:
        title = f"{each['kind']} {each['metadata']['name']}"
        phase = each.get("status", {}).get("phase", "")
        if is_leaving(each):
            held = ", ".join(each["metadata"].get("finalizers") or []) or "nothing"
            yield f"{title} is Terminating; its finalizers: {held}"
        elif each["kind"].startswith("Persistent") and phase != "Bound" and not _waits(stack, each):
            yield f"{title} is {phase or 'in no phase yet'}: see {RUNBOOK}"
        elif each["kind"] == "Pod" and phase == "Pending":
            yield f"{title} is Pending"


def _waits(stack: Stack, each: Mapping[str, Any]) -> bool:
    is_ours = each["kind"] == "PersistentVolumeClaim" and each["metadata"]["name"] == stack.claim
    return is_ours and stack.claim_may_wait


def may_have_left(outputs: Mapping[str, Any], stack: Stack) -> list[str]:
    """Names of the jobs that may be deleted: they succeeded, and set `runPolicy.ttlSecondsAfterFinished`."""
    known = outputs.get("jobs") or {}
    leaving = [job.name for job in stack.jobs if job.run_policy.ttl_seconds_after_finished is not None]
    return [name for name in leaving if (known.get(name) or {}).get("jobStatus") == job_status.SUCCEEDED]


def model_findings(outputs: Mapping[str, Any], stack: Stack, found: Objects) -> Iterator[str]:
    """Models that the outputs name and that are missing, or belong to another run."""
    runs = {
        each["metadata"]["name"]: each["metadata"]["labels"][RUN] for each in found if each["kind"] in NAMES
    }
    for job in stack.jobs:
        known = (outputs.get("jobs") or {}).get(job.name) or {}
        if job.model is None or known.get("jobStatus") != job_status.SUCCEEDED:
            continue
        model = paths.resolved(str(known.get("modelPath")))
        own = paths.models(stack.name) / "runs" / runs.get(job.name, "") / job.model
        if not model.is_file():
            yield f"{model} is missing; the outputs name it as the model of job {job.name}"
            if own.is_file():
                yield (
                    f"{own} exists: to copy it there again, run `make use RUN={own.parent.name} STACK={stack.name}`, "
                    f"then `make up STACK={stack.name}`"
                )
        elif own.is_file() and _digest(own) != _digest(model):
            yield f"{model} differs from {own}, the model of {job.name}'s run"


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def inspect(stack: Stack, outputs: Mapping[str, Any], show: Callable[[str], None]) -> list[str]:
    """The findings that remain after at most SETTLE_S seconds. Raises UnknownError.

    Parameters:
        outputs: the stack's.
        show: gets a line when the API server goes away, and one when it is back.
    """
    look = Look(addresses.of_stack(stack), show, limit_s=PATIENCE_S)
    left = may_have_left(outputs, stack)
    end = time.monotonic() + SETTLE_S
    while True:
        found = objects(stack, look)
        findings = [*cluster_findings(stack, found, left), *model_findings(outputs, stack, found)]
        if not findings or time.monotonic() > end:
            return findings
        time.sleep(PAUSE_S)

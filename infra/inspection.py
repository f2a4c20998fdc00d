"""A last look at the cluster and the models, after a `pulumi up`.

Pulumi judges by its state: it does not see that an object of the stack is half deleted, and a finalizer may hold it for
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
from infra.objects.kinds import CLAIM, POD, VOLUME
from infra.objects.labels import MANAGED_BY, RUN, STACK, job_of
from infra.objects.look import Look
from infra.objects.patience import PATIENCE_S
from infra.run import job_status, reader_pod

Objects = list[dict[str, Any]]
# What was deleted a moment ago, a reader pod for example, may take so many seconds to go.
SETTLE_S = 60
PAUSE_S = 1
RUNBOOK = "docs/runbooks/released-volume.md"


def objects(stack: Stack, look: Look) -> Objects:
    """The stack's volumes, claims, jobs and pods, each with its `kind`. Raises UnknownError."""
    namespace = stack.cluster.namespace
    selector = ",".join(f"{key}={value}" for key, value in MANAGED_BY.items())
    listed = [look.listed(CLAIM, namespace), look.listed(POD, namespace, labels=selector)]
    if volumes.own_volumes(stack):  # whoever has none of his own may not be allowed to list them
        listed.append(look.listed(VOLUME))
    listed.append(look.listed(OF_API[stack.operator.api], namespace))
    return [each for found in listed for each in found or [] if is_ours(each, stack)]


def is_ours(each: Mapping[str, Any], stack: Stack) -> bool:
    """By label, or by the name that the stack gives it; a pod by its job, or because it reads for us."""
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
    """What is missing, half gone or not bound, one sentence each. `left`: names of jobs that need not be there."""
    there = {(each["kind"], each["metadata"]["name"]) for each in found}
    wanted = [("PersistentVolume", volume.name) for volume in volumes.own_volumes(stack)]
    wanted += [("PersistentVolumeClaim", volume.claim) for volume in volumes.volumes(stack)]
    wanted += [(OF_API[stack.operator.api].kind, job.name) for job in stack.jobs if job.name not in left]
    yield from (f"{kind} {name} is missing" for kind, name in wanted if (kind, name) not in there)
    for each in found:
        title = f"{each['kind']} {each['metadata']['name']}"
        phase = each.get("status", {}).get("phase", "")
        if each["metadata"].get("deletionTimestamp"):
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
    """Names of the jobs that have succeeded and do not stay."""
    known = outputs.get("jobs") or {}
    leaving = [job.name for job in stack.jobs if job.run_policy.ttl_seconds_after_finished is not None]
    return [name for name in leaving if (known.get(name) or {}).get("jobStatus") == job_status.SUCCEEDED]


def model_findings(outputs: Mapping[str, Any], stack: Stack, found: Objects) -> Iterator[str]:
    """Models that the outputs name and that are not there, or are of another run."""
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
            yield f"{model} is missing, though the outputs name it as the model of job {job.name}"
            if own.is_file():
                yield f"{own} is there: `make use RUN={own.parent.name}` puts it at the top again"
        elif own.is_file() and _digest(own) != _digest(model):
            yield f"{model} is not the model of {job.name}'s run, which is {own}"


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def inspect(stack: Stack, outputs: Mapping[str, Any], show: Callable[[str], None]) -> list[str]:
    """The findings that are left after at most SETTLE_S seconds. Raises UnknownError.

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

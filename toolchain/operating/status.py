"""`make status`: the health of the stack, from engine to job. It changes nothing, and does not run Pulumi."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from infra import agreed
from infra.objects import labels
from infra.objects.kinds import is_leaving, title
from toolchain import failure, stack_files
from toolchain.machine import engine
from toolchain.operating import (
    api_server,
    environment,
    leftovers,
    live_objects,
    program_calls,
    quick_drift,
    state,
    user_backend,
    volume_space,
)
from toolchain.steps import SetupError

if TYPE_CHECKING:
    from infra.config.cluster_access import ClusterAccess

KINDS = "namespaces,persistentvolumes,persistentvolumeclaims,deployments,jobs.batch"
JOBS = "pytorchjobs.kubeflow.org"
TRAINJOBS, TRAINJOB = "trainjobs.trainer.kubeflow.org", "TrainJob"
# The kinds of KINDS that a user with rights in one namespace may list there.
TENANT_KINDS = "persistentvolumeclaims"
CLAIM = "PersistentVolumeClaim"
LISTED = ("Namespace", "PersistentVolume", CLAIM, "Deployment", "Job", "PyTorchJob", TRAINJOB)
"""The names in manifests of KINDS, JOBS and TRAINJOBS."""
JUDGED = ("PersistentVolume", CLAIM, "Deployment", "PyTorchJob", TRAINJOB)
"""The kinds of LISTED that have a phase or a condition. Other objects only exist, are missing or are being deleted."""
NOT_SET_UP = (
    "not asked: the Python packages are missing or out of date; `make fetch` or `make up` installs them"
)


class Health(IntEnum):
    """The values are exit statuses."""

    HEALTHY = 0
    NOT = 1
    UNKNOWN = 2


MARKS = {Health.HEALTHY: "ok", Health.NOT: "not ok", Health.UNKNOWN: "unknown"}


class Judged(Protocol):
    """Anything with a health: a finding on a stack, or a check of the machine."""

    @property
    def health(self) -> Health:
        """Its health."""


class Part(StrEnum):
    """What a finding is about."""

    STACK = "stack"
    ENGINE = "engine"
    CLUSTER = "cluster"
    API_SERVER = "API server"
    OBJECTS = "objects"
    OPERATOR = "operator"
    VOLUME = "volume"
    SPACE = "space"
    CLAIM = "claim"
    JOB = "job"
    DRIFT = "drift"
    EVENT = "event"
    OWNER = "owner"


RUNBOOKS = {
    Part.STACK: "docs/runbooks/first-deployment.md",
    Part.ENGINE: "docs/runbooks/cluster-gone.md",
    Part.CLUSTER: "docs/runbooks/cluster-gone.md",
    Part.API_SERVER: "docs/runbooks/cluster-gone.md",
    Part.OBJECTS: "docs/runbooks/cluster-gone.md",
    Part.OPERATOR: "docs/runbooks/operator-down.md",
    Part.VOLUME: "docs/runbooks/released-volume.md",
    Part.SPACE: "docs/runbooks/disk-full.md",
    Part.CLAIM: "docs/runbooks/released-volume.md",
    Part.JOB: "docs/runbooks/stuck-job.md",
    Part.DRIFT: "docs/runbooks/drift.md",
    Part.EVENT: "docs/runbooks/stuck-job.md",
    Part.OWNER: "docs/runbooks/lost-state.md",
}
"""The page to open if a part is not healthy, or its health is unknown."""


@dataclass(frozen=True)
class Finding:
    """One line of the output.

    Parameters:
        what: the part.
        said: the finding in words.
        about: the live object that was judged; None if there is none.
    """

    what: Part
    health: Health
    said: str
    about: dict[str, Any] | None = field(default=None, compare=False, repr=False)

    @property
    def runbook(self) -> str | None:
        """The page to open; None for a healthy part."""
        return None if self.health is Health.HEALTHY else RUNBOOKS[self.what]


def status(stack: str, as_json: bool = False) -> int:
    """Print a line for each part, or JSON; 0 if all are healthy, 1 if one is not, 2 if one is unknown."""
    findings = look_at(stack)
    health = overall(findings)
    if as_json:
        told = [_record(each) for each in findings]
        print(json.dumps({"stack": stack, "health": MARKS[health], "findings": told}))
        return health
    for each in findings:
        said = "; ".join(line.strip() for line in each.said.splitlines())
        print(
            f"{each.what:<10} {MARKS[each.health]:<8} {said}{f' (see {each.runbook})' if each.runbook else ''}"
        )
    return health


def look_at(stack: str) -> list[Finding]:
    """Look at `stack`. If looking fails, the stack's health is unknown."""
    try:
        stack_files.check(stack)
        return inspect_stack(stack)
    except Exception as error:
        told = error if isinstance(error, SetupError) else failure.sentence(error)
        return [Finding(Part.STACK, Health.UNKNOWN, str(told))]


def _record(finding: Finding) -> dict[str, str | None]:
    return {
        "what": finding.what,
        "health": MARKS[finding.health],
        "said": finding.said,
        "runbook": finding.runbook,
    }


def overall(findings: Iterable[Judged]) -> Health:
    """The health of the whole. A part that is known to be unhealthy counts more than a part whose health is unknown."""
    healths = {each.health for each in findings}
    return Health.NOT if Health.NOT in healths else max(healths)


def inspect_stack(stack: str) -> list[Finding]:
    """Check engine, cluster, operator, volume, jobs, space, drift, events, owner.

    If the other parts need a part that is not healthy, the checks stop there.
    """
    try:
        variables = environment.for_stack(environment.load() or {}, stack)
        told, access = environment.cluster_access(stack), environment.access(stack)
    except SetupError as error:
        return [Finding(Part.STACK, Health.UNKNOWN, str(error))]
    if told is None or access is None:
        return [Finding(Part.CLUSTER, Health.UNKNOWN, NOT_SET_UP)]
    findings = _nodes(told.cluster) if told.cluster and told.kind.has_our_nodes else []
    if findings and findings[-1].health is not Health.HEALTHY:
        return findings
    problem = api_server.problem(variables, access)
    if problem and api_server.FORBIDDEN not in problem:
        return [*findings, Finding(Part.API_SERVER, Health.UNKNOWN, problem)]
    findings.append(Finding(Part.API_SERVER, Health.HEALTHY, "answers"))
    try:
        program_calls.ensure_named_cluster(variables, stack)
    except SetupError as error:
        return [*findings, Finding(Part.CLUSTER, Health.UNKNOWN, str(error))]
    try:
        objects = _objects(variables, access, stack, told)
    except SetupError as error:
        return [*findings, Finding(Part.OBJECTS, Health.UNKNOWN, str(error))]
    if told.claim is None:
        wrong = "the stack file names no claim: `make up` says what is wrong in the file"
        findings.append(Finding(Part.CLAIM, Health.UNKNOWN, wrong))
    elif told.claim not in (each["metadata"]["name"] for each in objects if each["kind"] == CLAIM):
        findings += _claim_by_name(variables, access, told.namespace, told.claim)
    waiting = told.claim if told.claim_may_wait else None
    *parts, owner = inspect_objects(objects, waiting, *_in_state(stack, told))
    names = {each["metadata"]["name"] for each in objects}
    events = _events(variables, access, told.namespace, names)
    drift = _drift(variables, access, stack, objects)
    return [*findings, *parts, *_space(stack), *drift, *events, owner]


def _space(stack: str) -> list[Finding]:
    found = volume_space.of(stack)
    health = Health.NOT if found and found.is_nearly_full else Health.HEALTHY
    return [Finding(Part.SPACE, health, str(found))] if found else []


def _events(
    variables: Mapping[str, str], access: state.Access, namespace: str, names: set[str]
) -> list[Finding]:
    try:
        said = live_objects.recent_warnings(variables, access, namespace, names)
    except SetupError as error:
        return [Finding(Part.EVENT, Health.UNKNOWN, str(error))]
    return [Finding(Part.EVENT, Health.HEALTHY, each) for each in said]


def _drift(
    variables: Mapping[str, str], access: state.Access, stack: str, objects: list[dict[str, Any]]
) -> list[Finding]:
    """A changed key of the stack file that waits for `make up` is healthy. A changed or deleted object is not."""

    def waiting() -> dict[Health, list[str]]:
        return {Health.HEALTHY: quick_drift.of_file(stack)}

    def changed() -> dict[Health, list[str]]:
        said, unknown = quick_drift.of_objects(variables, access, stack, LISTED, objects)
        return {Health.NOT: said, Health.UNKNOWN: unknown}

    findings = []
    for look in (waiting, changed):
        try:
            found = look()
        except SetupError as error:
            found = {Health.UNKNOWN: [str(error)]}
        findings += [Finding(Part.DRIFT, health, each) for health, said in found.items() for each in said]
    return findings


def _nodes(cluster: str) -> list[Finding]:
    """The engine, then the nodes of `cluster`."""
    found = engine.find()
    if found is None:
        return [
            Finding(Part.ENGINE, Health.NOT, "no container engine answers: `make up` starts it"),
            Finding(Part.CLUSTER, Health.UNKNOWN, f"{cluster}: no container engine answers"),
        ]
    answers = Finding(Part.ENGINE, Health.HEALTHY, "started by `make up`" if found.ours else "your own")
    nodes = leftovers.nodes(found, cluster)
    if not nodes:
        return [answers, Finding(Part.CLUSTER, Health.NOT, f"{cluster} does not exist: `make up` creates it")]
    states = found.output("inspect", "--format", "{{.State.Status}}", *nodes).split()
    running = all(each == "running" for each in states)
    said = f"{cluster}: {', '.join(states)}" + ("" if running else ": `make up` starts it")
    return [answers, Finding(Part.CLUSTER, Health.HEALTHY if running else Health.NOT, said)]


def _objects(
    variables: Mapping[str, str], access: state.Access, stack: str, told: ClusterAccess
) -> list[dict[str, Any]]:
    """The objects with this stack's name in their mark; only those of its namespace if this user may not list others.

    Raises SetupError.
    """
    found: list[dict[str, Any]] = []
    options = ("--selector", f"{labels.STACK}={stack}", "--show-managed-fields", "--output", "json")
    other = JOBS if told.wants_trainer else TRAINJOBS
    for kinds, tenant_kinds in ((KINDS, TENANT_KINDS), (JOBS, JOBS), (TRAINJOBS, TRAINJOBS)):
        done = live_objects.kubectl(variables, access, "get", kinds, "--all-namespaces", *options)
        if api_server.FORBIDDEN in done.stderr:
            place = ("--namespace", told.namespace)
            done = live_objects.kubectl(variables, access, "get", tenant_kinds, *place, *options)
            if kinds == other and api_server.FORBIDDEN in done.stderr:
                continue  # a user without rights to these jobs has created none
        if done.returncode and live_objects.NO_SUCH_KIND not in done.stderr:
            raise SetupError(f"cannot list {kinds}: {done.stderr.strip()}")
        found += json.loads(done.stdout)["items"] if done.stdout.strip() else []
    return found


def _claim_by_name(
    variables: Mapping[str, str], access: state.Access, namespace: str, name: str
) -> list[Finding]:
    """A claim without this stack's label: somebody else made it (`storage.kind: claim`), or it is missing."""
    options = ("--namespace", namespace, "--ignore-not-found", "--output", "json")
    done = live_objects.kubectl(variables, access, "get", TENANT_KINDS, name, *options)
    if done.returncode:
        return [Finding(Part.CLAIM, Health.UNKNOWN, done.stderr.strip())]
    if not done.stdout.strip():
        return [Finding(Part.CLAIM, Health.NOT, f"{CLAIM}/{namespace}/{name} is missing")]
    return _each(Part.CLAIM, [json.loads(done.stdout)], _bound)


def inspect_objects(
    objects: list[dict[str, Any]],
    waiting: str | None = None,
    owner: str | None = None,
    not_asked: str = "",
    finished: Mapping[str, Mapping[str, Any]] | None = MappingProxyType({}),
) -> list[Finding]:
    """Findings from the stack's live objects: on operator, volumes, claims and jobs, and last, on the owner's mark.

    Parameters:
        waiting: name of the claim that may be Pending because no pod uses it yet; None if no claim may.
        owner: the id in the stack's state; None if the state has none, or was not read.
        not_asked: why the state was not read; empty if it was.
        finished: what state.finished returns; None if jobs may have been deleted, and the state was not read.
    """

    def bound_or_waiting(claim: dict[str, Any]) -> tuple[bool, str]:
        fine, phase = _bound(claim)
        waits = phase == "Pending" and claim["metadata"]["name"] == waiting
        return fine or waits, f"{phase} until a pod uses it" if waits else phase

    copies = [each for each in objects if labels.is_copied(each)]
    objects = [each for each in objects if each not in copies]
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for each in objects:
        by_kind.setdefault(each["kind"], []).append(each)
    findings = [
        *_each(Part.OPERATOR, by_kind.get("Deployment", []), _operator),
        *_each(Part.VOLUME, by_kind.get("PersistentVolume", []), _bound),
        *_each(Part.CLAIM, by_kind.get(CLAIM, []), bound_or_waiting),
        *_each(Part.JOB, [*by_kind.get("PyTorchJob", []), *by_kind.get(TRAINJOB, [])], _job),
    ]
    unjudged = [each for kind in LISTED if kind not in JUDGED for each in by_kind.get(kind, [])]
    findings += [
        Finding(Part.DRIFT, Health.NOT, f"{title(each)} Terminating", each)
        for each in unjudged
        if is_leaving(each)
    ]
    findings += [
        Finding(Part.OWNER, Health.NOT, f"{title(each)} has this stack's labels, but is somebody's copy")
        for each in copies
    ]
    there = {title(each) for each in objects}
    left = {name: each["run"] for name, each in (finished or {}).items() if name not in there}
    findings += [
        Finding(Part.JOB, Health.HEALTHY, f"{name} has finished and was deleted; its run is {run}")
        for name, run in sorted(left.items())
    ]
    if not (left or by_kind.keys() & {"PyTorchJob", TRAINJOB}):
        health = Health.UNKNOWN if finished is None else Health.NOT
        why = f"a finished job may have been deleted; {not_asked}" if finished is None else "run `make up`"
        findings.append(Finding(Part.JOB, health, f"no job with this stack's mark: {why}"))
    return [*findings, _owner(objects, owner, not_asked)]


def _each(
    what: Part, objects: list[dict[str, Any]], healthy: Callable[[dict[str, Any]], tuple[bool, str]]
) -> list[Finding]:
    findings = []
    for each in objects:
        fine, said = healthy(each)
        leaving = is_leaving(each)
        said = f"{title(each)} {'Terminating' if leaving else said}"
        findings.append(Finding(what, Health.HEALTHY if fine and not leaving else Health.NOT, said, each))
    return findings


def _operator(deployment: dict[str, Any]) -> tuple[bool, str]:
    available = int(deployment.get("status", {}).get("availableReplicas") or 0)
    return available > 0, f"{available} of {deployment['spec'].get('replicas', 1)} available"


def _bound(volume: dict[str, Any]) -> tuple[bool, str]:
    phase = str(volume.get("status", {}).get("phase", "unknown"))
    return phase == "Bound", phase


def _job(job: dict[str, Any]) -> tuple[bool, str]:
    said = next(reversed(job_conditions(job)), "no condition yet")
    # A TrainJob has no condition before its end or a suspension.
    fine = said in ("Succeeded", "Running", "Created", "Restarting", "Suspended")
    fine = fine or (job["kind"] == TRAINJOB and said != "Failed")
    return fine, ", ".join(filter(None, [said, agreed.progress(job)]))


def job_conditions(job: dict[str, Any]) -> list[str]:
    """The conditions that are true, the latest last, in a PyTorchJob's words."""
    held = [str(each["type"]) for each in agreed.conditions(job)]
    if not held and any(each.get("active") for each in (job.get("status") or {}).get("jobsStatus") or []):
        return ["Running"]
    return ["Succeeded" if name == "Complete" else name for name in held]


def _in_state(
    stack: str, told: ClusterAccess
) -> tuple[str | None, str, Mapping[str, Mapping[str, Any]] | None]:
    """Owner id, why the state was not read, and finished jobs, as `inspect_objects` takes them.

    A stack that was refused before its first object also has an id.
    """
    if user_backend.backend():
        why = "`make status` does not ask your own backend: `pulumi stack export` shows the state"
        return None, why, None if told.jobs_leave else {}
    try:
        deployment = state.deployment(stack)
        return state.owner(deployment), "", state.finished(deployment)
    except SetupError as error:
        return None, str(error), {}


def _owner(objects: list[dict[str, Any]], in_state: str | None, not_asked: str) -> Finding:
    carried = {owner for each in objects if (owner := labels.owner_of(each))}
    ids = sorted(carried | ({in_state} if in_state else set()))
    if len(ids) > 1:
        known = f"; this stack has id {in_state}" if in_state else ""
        told = (
            f"several stacks of this name have objects in the cluster, with owner ids {', '.join(ids)}{known}"
        )
        return Finding(Part.OWNER, Health.NOT, told)
    if in_state and not carried:
        return Finding(Part.OWNER, Health.HEALTHY, f"{in_state}; no object carries this id yet")
    if not ids and not_asked:
        return Finding(Part.OWNER, Health.UNKNOWN, f"no object carries an id; {not_asked}")
    said = ids[0] if ids else "no id yet: `make up` gives one"
    return Finding(Part.OWNER, Health.HEALTHY if ids else Health.NOT, said)

"""All objects that a stack makes in its cluster, as data: a review prints them, and the program registers them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

import pulumi

from infra import dataset, operators, volumes
from infra.clusters.discovery import ClusterContents
from infra.config import ConfigError, Stack
from infra.config.job import JobConfig
from infra.config.operator import KUEUE_NAMESPACE, OPERATOR_NAMESPACE, Install, OperatorApi
from infra.config.storage_kinds import StorageKind
from infra.config.training import Dataset
from infra.guard import admission, job_network, namespace_limits, policy_rules
from infra.image.component import rendered_reference
from infra.job import helper_pods, manifest, queue, secret, trainjob
from infra.job.context import JobContext, context
from infra.objects.kinds import CLAIM
from infra.objects.labels import stack_labels
from infra.objects.manifest import Manifest, title
from infra.objects.pod_security import namespace_labels
from infra.training_operator.plan import Plan, plan
from storage.directory import job as preparing_job
from storage.manifests import Claim, ProvisionedClaim, Volume
from storage.manifests import manifests as volume_manifests

# A cluster of somebody else's is taken to have an operator in its usual namespace, unless the stack installs one.
ASSUMED = ClusterContents(
    namespaces=frozenset({OPERATOR_NAMESPACE, KUEUE_NAMESPACE}),
    crd=True,
    operator=True,
    gang_scheduler=True,
    kueue=True,
    kueue_crds=True,
)

SPACES, GUARD, VOLUMES, PREPARED = "namespaces", "guard", "volumes", "preparation"
"""Phases, beside PARTS of operators. What is of one phase is registered together; each job is a phase of its own."""
FOLDERS, IMAGE, SHARED = "folders", "image", "shared folder"
"""What objects wait for beside phases, and what is in no cluster, or no object."""


def of_job(name: str) -> str:
    """The phase of a job's objects."""
    return f"Job/{name}"


def of_run(name: str) -> str:
    """The run of a job, for those who wait for its end."""
    return f"JobRun/{name}"


@dataclass(frozen=True, kw_only=True)
class Planned:
    """An object that the stack makes, and how it is registered.

    Parameters:
        name: of its resource; by default the object's title.
        after: phases, and titles of objects, that it waits for.
        held_by: titles of objects that are deleted only after it is: it is made anew with them.
        image: the trainer image's reference, where the object has it: the pushed one takes its place.
        secret: `data` of a Secret, which no review shows.
        options: how Pulumi changes and deletes it.
    """

    manifest: Manifest
    phase: str
    name: str = ""
    after: tuple[str, ...] = ()
    held_by: tuple[str, ...] = ()
    image: str = ""
    secret: Mapping[str, str] = field(default_factory=dict, repr=False)
    options: pulumi.ResourceOptions = field(default_factory=pulumi.ResourceOptions)


def anew(*keys: str) -> pulumi.ResourceOptions:
    """A change of `keys` makes the object anew, the old one deleted first."""
    return pulumi.ResourceOptions(replace_on_changes=[*keys], delete_before_replace=True)


def of(
    stack: Stack,
    parts: Plan,
    datasets: Mapping[str, Dataset | None] | None = None,
    image: str = "",
    queued: Mapping[str, str] | None = None,
) -> list[Planned]:
    """Every object, in the order in which a review shows them. Raises ConfigError where the quota is too small.

    Parameters:
        stack: the validated configuration.
        parts: which namespaces, and which parts of the operator, are the stack's to make.
        datasets: job's name -> what it trains on, None for the trainer's default; by default as a review takes it.
        image: the trainer image's reference; by default as a review shows it.
        queued: what jobs in queues were made from, as the state has it.
    """
    chosen, reference = datasets or dataset.of_review(stack), image or rendered_reference(stack)
    upstreams = operators.parts(stack, parts)
    found = [*_namespaces(stack, parts), *_volumes(stack)]
    if stack.prepared_by_job:
        found.append(_preparation(stack, reference))
    for place, job in enumerate(stack.jobs):
        given = context(stack, reference, chosen[job.name])
        found += _job(stack, place, given, queued or {})
    limits = namespace_limits.manifests(stack, chain(*upstreams.values()))
    guards = [*admission.manifests(stack), *limits, *job_network.policies(stack)]
    found += [Planned(manifest=each, phase=GUARD, after=(SPACES,)) for each in guards]
    rows = (Planned(manifest=each, phase=part) for part, objects in upstreams.items() for each in objects)
    return [*found, *rows]


def namespace(stack: Stack, name: str) -> Manifest:
    """A namespace that enforces the stack's Pod Security level."""
    labels = {**stack_labels(stack.name), **namespace_labels(stack.cluster.pod_security.value)}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _namespaces(stack: Stack, parts: Plan) -> Iterator[Planned]:
    """Pulumi never deletes the namespace of a claim whose files may go with it."""
    others_files = stack.storage.kind in (StorageKind.CLASS, StorageKind.CLAIM)
    for name in parts.namespaces:
        kept = others_files if name == stack.cluster.namespace else None
        options = pulumi.ResourceOptions(retain_on_delete=kept)
        yield Planned(manifest=namespace(stack, name), phase=SPACES, options=options)


def _volumes(stack: Stack) -> Iterator[Planned]:
    """PersistentVolumes and claims, those that are ours. Deleting them keeps the files.

    Of a volume of ours the policy is Retain. What Kubernetes lets one change in place is updated. Else volume and claim
    are made anew around the same files: pods first, then the claim, then the volume, since each is held by a finalizer
    as long as the one before is there.

    A provisioned volume may go with its claim, by its class's reclaim policy, so that Pulumi never deletes that claim.
    """
    after = (SPACES, FOLDERS)
    for each in volumes.volumes(stack):
        if isinstance(each, Volume):
            volume, claim = volume_manifests(each)
            fixed = pulumi.ResourceOptions(replacement_trigger=each.fixed, delete_before_replace=True)
            yield Planned(manifest=volume, phase=VOLUMES, after=after, options=fixed)
            # A claim that comes before its volume is bound at the binder's next round, up to 15 s later.
            there = (title(volume),)
            yield Planned(
                manifest=claim, phase=VOLUMES, after=after + there, held_by=there, options=anew("spec")
            )
        elif isinstance(each, ProvisionedClaim):
            kept = pulumi.ResourceOptions(retain_on_delete=True)
            yield from (
                Planned(manifest=claim, phase=VOLUMES, after=after, options=kept)
                for claim in volume_manifests(each)
            )


def _claims(given: Iterable[Claim]) -> tuple[str, ...]:
    """Titles of the claims that the stack makes."""
    return tuple(
        title(each) for volume in given for each in volume_manifests(volume) if each["kind"] == CLAIM.kind
    )


def preparation(stack: Stack, image: str) -> Manifest:
    """The Job that makes the models' folder writable for the trainer, where only Kubernetes reaches it."""
    config, fields = stack.storage, helper_pods.spec_fields(stack.jobs)
    return preparing_job(
        volumes.models(stack), image, config.owner, config.group, config.mode, volumes.users(stack), fields
    )


def _preparation(stack: Stack, image: str) -> Planned:
    return Planned(
        manifest=preparation(stack, image),
        phase=PREPARED,
        after=(VOLUMES,),
        held_by=_claims([volumes.models(stack)]),
        image=image,
        options=anew("spec"),
    )


def _job(stack: Stack, place: int, given: JobContext, queued: Mapping[str, str]) -> Iterator[Planned]:
    """A job after what it refers to. A changed one is replaced, the old one deleted first: it has the configured name.

    Parameters:
        place: its number among the jobs.
    """
    job = stack.jobs[place]
    phase, image = of_job(job.name), str(given.image)
    after = (operators.OPERATOR, GUARD, VOLUMES, PREPARED, IMAGE, SHARED, *ends_before(stack, place))
    held_by = _claims(volumes.volumes(stack))
    if job.encrypted:
        hidden, data = secret.manifest(job, stack.cluster.namespace), secret.data(job)
        yield Planned(manifest=hidden, phase=phase, after=after, secret=data, options=anew("data"))
        held_by += (title(hidden),)
    *runtimes, wanted = job_objects(job, given)
    for each in runtimes:
        yield Planned(
            manifest=each, phase=phase, after=after, held_by=held_by, image=image, options=anew("spec")
        )
        held_by, image = (title(each),), ""
    options = pulumi.ResourceOptions.merge(anew("spec"), queue.options(wanted, queued))
    yield Planned(
        manifest=wanted,
        phase=phase,
        name=f"{wanted['kind']}/{job.name}",
        after=after,
        held_by=held_by,
        image=image,
        options=options,
    )


def ends_before(stack: Stack, place: int) -> tuple[str, ...]:
    """The run that has to end before a job starts, where `matrix.maxParallel` limits how many run at once."""
    most = stack.matrix.max_parallel if stack.matrix else None
    return (of_run(stack.jobs[place - most].name),) if most and place >= most else ()


def reviewed(stack: Stack) -> Plan:
    """What a review takes to be the stack's to install, as it looks at no cluster.

    A cluster of the stack's own has nothing yet; with `auto`, a cluster of others is taken to have an operator.
    Raises ConfigError where `operator.install` cannot be done.
    """
    own = stack.cluster.kind.is_ours
    return plan(stack, ClusterContents() if own or stack.operator.install is Install.ALWAYS else ASSUMED)


def unseen(stack: Stack, planned: Iterable[Planned]) -> list[str]:
    """Titles of what `planned` has and no review shows: in others' clusters a review takes it to be there."""
    if stack.cluster.kind.is_ours or stack.operator.install is Install.ALWAYS:
        return []
    assumed = {title(namespace(stack, name)) for name in ASSUMED.namespaces}
    shown = {title(each) for each in operators.manifests(stack, reviewed(stack))}
    found = [(title(each.manifest), each.phase) for each in planned]
    return [
        name for name, phase in found if (phase in operators.PARTS and name not in shown) or name in assumed
    ]


def job_objects(job: JobConfig, given: JobContext) -> list[Manifest]:
    """The job in the API that the stack asks for, after what it refers to."""
    found = _of_api(job, given)
    return queue.noted(found, _of_api(job, replace(given, image=""))) if job.queue else found


def _of_api(job: JobConfig, given: JobContext) -> list[Manifest]:
    return trainjob.manifests(job, given) if given.api is OperatorApi.V2 else [manifest.manifest(job, given)]


def run_id(stack: Stack, job: JobConfig, chosen: Dataset | None) -> str:
    """The id of the run that `job` makes on the data set `chosen`."""
    return manifest.run_of(job_objects(job, context(stack, rendered_reference(stack), chosen))[-1])


def ensure_allowed(stack: Stack, manifests: Iterable[Manifest]) -> None:
    """Raises ConfigError naming each policy that the stack's manifests break."""
    pinned_later = frozenset(() if stack.image.reference else (rendered_reference(stack),))
    objects = [*manifests]
    made = [job for each in objects for job in trainjob.jobs_of(each)]
    found = policy_rules.violations([*objects, *made], admission.allowed(stack, pinned_later))
    if found:
        raise ConfigError("\n".join(f"{stack.file}: policy: {each}" for each in found))

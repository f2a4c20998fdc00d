"""All objects that a stack creates in its cluster, as data: a review prints them, the program registers them."""

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
from infra.objects.kinds import CLAIM, title
from infra.objects.labels import stack_labels
from infra.objects.manifest import Manifest
from infra.objects.pod_security import namespace_labels
from infra.training_operator.plan import Plan, plan
from storage.directory import job as preparing_job
from storage.manifests import Claim, ProvisionedClaim, Volume
from storage.manifests import manifests as volume_manifests

# A review assumes this of an existing cluster, except with `operator.install: always`.
ASSUMED = ClusterContents(
    namespaces=frozenset({OPERATOR_NAMESPACE, KUEUE_NAMESPACE}),
    crd=True,
    operator=True,
    gang_scheduler=True,
    kueue=True,
    kueue_crds=True,
)

SPACES, GUARD, VOLUMES, PREPARED = "namespaces", "guard", "volumes", "preparation"
"""Phases. PARTS of infra.operators, and each job, are phases, too. The objects of a phase are registered together."""
FOLDERS, IMAGE, SHARED = "folders", "image", "shared folder"
"""Other things that objects wait for. They are not Kubernetes objects."""


def of_job(name: str) -> str:
    """The phase of a job's objects."""
    return f"Job/{name}"


def of_run(name: str) -> str:
    """The run of a job, for objects that wait for its end."""
    return f"JobRun/{name}"


@dataclass(frozen=True, kw_only=True)
class Planned:
    """An object that the stack creates, and how it is registered.

    Parameters:
        name: of its resource; by default the object's title.
        after: phases, and titles of objects, that it waits for.
        delete_before: titles of objects that are deleted after this object. If one of them is replaced, this object is
            replaced, too.
        image: the trainer image's reference in this object. The pushed reference replaces it.
        secret: `data` of a Secret. No review shows it.
        options: how Pulumi changes and deletes it.
    """

    manifest: Manifest
    phase: str
    name: str = ""
    after: tuple[str, ...] = ()
    delete_before: tuple[str, ...] = ()
    image: str = ""
    secret: Mapping[str, str] = field(default_factory=dict, repr=False)
    options: pulumi.ResourceOptions = field(default_factory=pulumi.ResourceOptions)


def replaced_by(*keys: str) -> pulumi.ResourceOptions:
    """A change of `keys` replaces the object: the old one is deleted first."""
    return pulumi.ResourceOptions(replace_on_changes=[*keys], delete_before_replace=True)


def of(
    stack: Stack,
    parts: Plan,
    datasets: Mapping[str, Dataset | None] | None = None,
    image: str = "",
    queued: Mapping[str, str] | None = None,
) -> list[Planned]:
    """Every object, in the order in which a review shows them. Raises ConfigError if the quota is too small.

    Parameters:
        stack: the validated configuration.
        parts: the namespaces, and the parts of the operator, that the stack creates.
        datasets: job's name -> its data set, None for the trainer's default; by default the data sets of a review.
        image: the trainer image's reference; by default the reference of a review.
        queued: from the state: title of a queued job -> the manifest that it was created from.
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
    """Pulumi keeps the jobs' namespace if its deletion could delete a claim's files."""
    others_files = stack.storage.kind in (StorageKind.CLASS, StorageKind.CLAIM)
    for name in parts.namespaces:
        kept = others_files if name == stack.cluster.namespace else None
        options = pulumi.ResourceOptions(retain_on_delete=kept)
        yield Planned(manifest=namespace(stack, name), phase=SPACES, options=options)


def _volumes(stack: Stack) -> Iterator[Planned]:
    """The stack's PersistentVolumes and claims. Their deletion keeps the files.

    Our volumes have the policy Retain. Fields that Kubernetes lets us change are updated in place. Any other change
    replaces volume and claim and keeps the files. Pods are deleted first, then the claim, then the volume: a finalizer
    holds the claim until no pod uses it, and the volume until no claim is bound to it.

    The reclaim policy of a storage class may delete a provisioned volume with its claim. So Pulumi never deletes that
    claim.
    """
    after = (SPACES, FOLDERS)
    for each in volumes.volumes(stack):
        if isinstance(each, Volume):
            volume, claim = volume_manifests(each)
            fixed = pulumi.ResourceOptions(replacement_trigger=each.fixed, delete_before_replace=True)
            yield Planned(manifest=volume, phase=VOLUMES, after=after, options=fixed)
            # If a claim is created before its volume, the binder binds it only in the next round, up to 15 s later.
            there = (title(volume),)
            yield Planned(
                manifest=claim,
                phase=VOLUMES,
                after=after + there,
                delete_before=there,
                options=replaced_by("spec"),
            )
        elif isinstance(each, ProvisionedClaim):
            (claim,) = volume_manifests(each)
            kept = pulumi.ResourceOptions(retain_on_delete=True)
            yield Planned(manifest=claim, phase=VOLUMES, after=after, options=kept)


def _claims(given: Iterable[Claim]) -> tuple[str, ...]:
    """Titles of the claims that the stack creates."""
    return tuple(
        title(each) for volume in given for each in volume_manifests(volume) if each["kind"] == CLAIM.kind
    )


def preparation(stack: Stack, image: str) -> Manifest:
    """The Job that makes the models' folder writable for the trainer.

    A stack has this Job if this machine cannot reach the folder without Kubernetes (`Stack.prepared_by_job`).
    """
    config, fields = stack.storage, helper_pods.spec_fields(stack.jobs)
    return preparing_job(
        volumes.models(stack), image, config.owner, config.group, config.mode, volumes.users(stack), fields
    )


def _preparation(stack: Stack, image: str) -> Planned:
    return Planned(
        manifest=preparation(stack, image),
        phase=PREPARED,
        after=(VOLUMES,),
        delete_before=_claims([volumes.models(stack)]),
        image=image,
        options=replaced_by("spec"),
    )


def _job(stack: Stack, place: int, given: JobContext, queued: Mapping[str, str]) -> Iterator[Planned]:
    """The objects that a job refers to, then the job. A changed job is replaced: the old job is deleted first.

    Parameters:
        place: its number among the jobs.
    """
    job = stack.jobs[place]
    phase, image = of_job(job.name), str(given.image)
    after = (operators.OPERATOR, GUARD, VOLUMES, PREPARED, IMAGE, SHARED, *ends_before(stack, place))
    delete_before = _claims(volumes.volumes(stack))
    if job.encrypted:
        hidden, data = secret.manifest(job, stack.cluster.namespace), secret.data(job)
        yield Planned(manifest=hidden, phase=phase, after=after, secret=data, options=replaced_by("data"))
        delete_before += (title(hidden),)
    *runtimes, wanted = job_objects(job, given)
    for each in runtimes:
        yield Planned(
            manifest=each,
            phase=phase,
            after=after,
            delete_before=delete_before,
            image=image,
            options=replaced_by("spec"),
        )
        delete_before, image = (title(each),), ""
    options = pulumi.ResourceOptions.merge(replaced_by("spec"), queue.options(wanted, queued))
    yield Planned(
        manifest=wanted,
        phase=phase,
        name=f"{wanted['kind']}/{job.name}",
        after=after,
        delete_before=delete_before,
        image=image,
        options=options,
    )


def ends_before(stack: Stack, place: int) -> tuple[str, ...]:
    """The run that has to end before a job starts: at most `matrix.maxParallel` jobs run at once."""
    most = stack.matrix.max_parallel if stack.matrix else None
    return (of_run(stack.jobs[place - most].name),) if most and place >= most else ()


def reviewed(stack: Stack) -> Plan:
    """The parts that a review assumes the stack installs: a review reads no cluster.

    The stack's own cluster is assumed to be empty. An existing cluster is assumed to have an operator, except with
    `operator.install: always`. Raises ConfigError if `operator.install` is impossible.
    """
    own = stack.cluster.kind.is_ours
    return plan(stack, ClusterContents() if own or stack.operator.install is Install.ALWAYS else ASSUMED)


def unseen(stack: Stack, planned: Iterable[Planned]) -> list[str]:
    """Titles of planned objects that no review shows: a review assumes that an existing cluster has them."""
    if stack.cluster.kind.is_ours or stack.operator.install is Install.ALWAYS:
        return []
    assumed = {title(namespace(stack, name)) for name in ASSUMED.namespaces}
    shown = {title(each) for each in operators.manifests(stack, reviewed(stack))}
    found = [(title(each.manifest), each.phase) for each in planned]
    return [
        name for name, phase in found if (phase in operators.PARTS and name not in shown) or name in assumed
    ]


def job_objects(job: JobConfig, given: JobContext) -> list[Manifest]:
    """The job in the API that the stack asks for, after the objects that it refers to."""
    found = _of_api(job, given)
    return queue.with_origin(found, _of_api(job, replace(given, image=""))) if job.queue else found


def _of_api(job: JobConfig, given: JobContext) -> list[Manifest]:
    return trainjob.manifests(job, given) if given.api is OperatorApi.V2 else [manifest.manifest(job, given)]


def run_id(stack: Stack, job: JobConfig, chosen: Dataset | None) -> str:
    """The id of the run of `job` on the data set `chosen`."""
    return manifest.run_of(job_objects(job, context(stack, rendered_reference(stack), chosen))[-1])


def ensure_allowed(stack: Stack, manifests: Iterable[Manifest]) -> None:
    """Raises ConfigError that names each policy that the stack's manifests break."""
    pinned_later = frozenset(() if stack.image.reference else (rendered_reference(stack),))
    objects = [*manifests]
    made = [job for each in objects for job in trainjob.jobs_of(each)]
    found = policy_rules.violations([*objects, *made], admission.allowed(stack, pinned_later))
    if found:
        raise ConfigError("\n".join(f"{stack.file}: policy: {each}" for each in found))

"""Everything a stack applies, as data: from the same functions that the components register."""

from __future__ import annotations

from collections.abc import Mapping

from infra import dataset, folder_preparation, operators, volumes
from infra.clusters import namespaces
from infra.clusters.discovery import ClusterContents
from infra.config import ConfigError, Stack
from infra.config.job import JobConfig
from infra.config.operator import KUEUE_NAMESPACE, OPERATOR_NAMESPACE, Install
from infra.config.training import Dataset
from infra.guard import admission, policy_rules
from infra.guard import component as guard
from infra.image.component import rendered_reference
from infra.job import secret
from infra.job.apis import objects as job_objects
from infra.job.context import context
from infra.job.manifest import run_of
from infra.job.trainjob import jobs_of
from infra.objects.manifest import Manifest, title
from infra.training_operator.plan import Plan, plan
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


def rendered_plan(stack: Stack) -> Plan:
    """What a review takes to be the stack's to install, as it looks at no cluster.

    A cluster of the stack's own has nothing yet; with `auto`, a cluster of others is taken to have an operator.
    Raises ConfigError where `operator.install` cannot be done.
    """
    own = stack.cluster.kind.is_ours
    return plan(stack, ClusterContents() if own or stack.operator.install is Install.ALWAYS else ASSUMED)


def unseen(stack: Stack, planned: Plan) -> list[str]:
    """Titles of what `planned` registers and no review shows: in others' clusters a review takes it to be there."""
    if stack.cluster.kind.is_ours or stack.operator.install is Install.ALWAYS:
        return []
    missing = [namespaces.manifest(stack, name) for name in planned.namespaces if name in ASSUMED.namespaces]
    shown = {title(each) for each in operator(stack, rendered_plan(stack))}
    return [title(each) for each in (*missing, *operator(stack, planned)) if title(each) not in shown]


def operator(stack: Stack, planned: Plan) -> list[Manifest]:
    """The operator's objects that `planned` registers."""
    return operators.manifests(stack, planned)


def workload(
    stack: Stack, planned: Plan, image: str, datasets: Mapping[str, Dataset | None]
) -> list[Manifest]:
    """Namespaces, volumes, claims and jobs with their Secrets, in the order in which they are applied.

    Parameters:
        stack: the validated configuration.
        planned: which namespaces are the stack's to make.
        image: the trainer image's reference.
        datasets: job's name -> what it trains on, None for the trainer's default.
    """
    objects = [namespaces.manifest(stack, name) for name in planned.namespaces]
    objects += [each for volume in volumes.volumes(stack) for each in volume_manifests(volume)]
    if stack.prepared_by_job:
        objects.append(folder_preparation.manifest(stack, image))
    for job in stack.jobs:
        objects += [secret.manifest(job, stack.cluster.namespace)] if job.encrypted else []
        objects += job_objects(job, context(stack, image, datasets[job.name]))
    return objects


def rendered_datasets(stack: Stack) -> dict[str, Dataset | None]:
    """Job's name -> what it trains on in a review: `auto` is MNIST there, as a machine's files do not count."""
    return {job.name: on_machine_with(Dataset.MNIST, stack, job) for job in stack.jobs}


def on_machine_with(found: Dataset, stack: Stack, job: JobConfig) -> Dataset | None:
    """What `job` trains on where the folder that decides it holds `found`."""
    chosen = job.training.dataset
    return found if chosen is Dataset.AUTO and dataset.looked_at(stack, job) else chosen


def run_id(stack: Stack, job: JobConfig, chosen: Dataset | None) -> str:
    """The id of the run that `job` makes on the data set `chosen`, as `workload` renders it."""
    return run_of(job_objects(job, context(stack, rendered_reference(stack), chosen))[-1])


def ensure_allowed(stack: Stack, manifests: list[Manifest]) -> None:
    """Raises ConfigError naming each policy that the stack's manifests break."""
    pinned_later = frozenset(() if stack.image.reference else (rendered_reference(stack),))
    made = [job for each in manifests for job in jobs_of(each)]
    found = policy_rules.violations([*manifests, *made], admission.allowed(stack, pinned_later))
    if found:
        raise ConfigError("\n".join(f"{stack.file}: policy: {each}" for each in found))


def preview(stack: Stack, planned: Plan) -> list[Manifest]:
    """Hold what `pulumi up` is about to register to the policies, and return it. Raises ConfigError."""
    image = rendered_reference(stack)
    objects = workload(stack, planned, image, rendered_datasets(stack))
    ensure_allowed(stack, objects)
    upstreams = operator(stack, planned)
    ensure_allowed(stack, upstreams)
    return [*objects, *guard.manifests(stack, upstreams), *upstreams]

"""Everything a stack applies, as data: from the same functions that the components register."""

from __future__ import annotations

import os
from collections.abc import Mapping

from infra import paths, volumes
from infra.clusters import namespaces
from infra.clusters.discovery import Found
from infra.config import ConfigError, Stack
from infra.config.cluster import ClusterKind
from infra.config.training import Dataset
from infra.image.component import rendered_reference
from infra.job.context import context_of
from infra.job.manifest import manifest
from infra.objects.manifest import Manifest
from infra.review import policies
from infra.training_operator import overlay, patches
from infra.training_operator.component import manifests as operator_manifests
from infra.training_operator.plan import Plan, plan
from storage.manifests import manifests as volume_manifests

# A cluster of somebody else's is taken to have an operator in its usual namespace, unless the stack installs one.
ASSUMED = Found(namespaces=frozenset({patches.NAMESPACE}), crd=True, operator=True)
OPERATOR = "ghcr.io/kubeflow/training-v1/training-operator"


def rendered_plan(stack: Stack) -> Plan:
    """What a review shows: without a cluster to look at, one with others' operator is assumed for `auto`."""
    own = stack.cluster.kind is not ClusterKind.EXISTING
    return plan(stack, Found() if own or stack.operator.install == "always" else ASSUMED)


def operator(stack: Stack, planned: Plan, environment: Mapping[str, str] = os.environ) -> list[Manifest]:
    """The operator's objects that `planned` registers; empty where it registers none."""
    if not (planned.crd or planned.operator):
        return []
    where = overlay.location(environment)
    return operator_manifests(stack.name, None, patches.INIT_IMAGE, paths.STATE / "cache", where)


def workload(
    stack: Stack, planned: Plan, image: str, datasets: Mapping[str, Dataset | None]
) -> list[Manifest]:
    """Namespaces, volumes, claims and jobs."""
    objects = [namespaces.manifest(stack, name) for name in planned.namespaces]
    objects += [each for volume in volumes.volumes(stack) for each in volume_manifests(volume)]
    if stack.cluster.kind is not ClusterKind.KIND and stack.storage.prepare:
        objects.append(volumes.preparation(stack, image))
    objects += [manifest(job, context_of(stack, image, datasets[job.name])) for job in stack.jobs]
    return objects


def rendered_datasets(stack: Stack) -> dict[str, Dataset | None]:
    """`auto` depends on a machine's files; a review shows what it is meant for."""
    chosen = {job.name: job.training.dataset for job in stack.jobs}
    return {name: Dataset.MNIST if dataset is Dataset.AUTO else dataset for name, dataset in chosen.items()}


def ensure_allowed(stack: Stack, manifests: list[Manifest]) -> None:
    """Raises ConfigError naming each policy that the stack's manifests break."""
    image = rendered_reference(stack)
    pinned_later = not stack.image.reference
    unpinned = frozenset({image} if pinned_later or stack.image.unpinned else ()) | upstream(manifests)
    found = policies.violations(manifests, policies.Rules(stack.storage.allowed_roots, unpinned))
    if found:
        raise ConfigError("\n".join(f"{stack.file}: policy: {each}" for each in found))


def upstream(manifests: list[Manifest]) -> frozenset[str]:
    """Upstream pins its operator by tag, in an overlay that we pin; and so do we its init container's default."""
    images = (container["image"] for each in manifests for _, container in policies.containers(each))
    return frozenset(image for image in images if image.rpartition(":")[0] == OPERATOR) | {patches.INIT_IMAGE}


def preview(stack: Stack, planned: Plan) -> None:
    """The policies over what this run is about to register. Raises ConfigError."""
    image = rendered_reference(stack)
    ensure_allowed(stack, workload(stack, planned, image, rendered_datasets(stack)))
    # Reading upstream's manifests takes seconds the first time; what is the user's own to mend is said before that.
    ensure_allowed(stack, operator(stack, planned))

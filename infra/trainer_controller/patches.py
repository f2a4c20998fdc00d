"""Our changes of the objects of Kubeflow Trainer and JobSet, one pure function each."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable

import yaml

from infra.config.operator import OperatorConfig
from infra.objects.job_kinds import TRAINJOB
from infra.objects.manifest import Manifest
from infra.training_operator.patches import (
    CRD_KIND,
    confine,
    explicit,
    labelled,
    moved,
    secret,
    service,
    throughput,
)
from infra.upstream import vendored

TRAINER_VERSION, JOBSET_VERSION = vendored.version("trainer"), vendored.version("jobset")
TRAINER = "kubeflow-trainer-controller-manager"
JOBSET = "jobset-controller-manager"
PUBLIC = "kubeflow-trainer-public"
VALIDATION = "validator.trainer.kubeflow.org"
CERTIFICATE = "kubeflow-trainer-webhook-cert"
REPOSITORIES = ("ghcr.io/kubeflow/trainer/trainer-controller-manager", "registry.k8s.io/jobset/jobset")
# The images that each release publishes. JobSet's manifests name another image, which the project uses for tests.
IMAGES = {
    TRAINER: f"{REPOSITORIES[0]}:{TRAINER_VERSION}",
    JOBSET: f"{REPOSITORIES[1]}:{JOBSET_VERSION}",
}
CLUSTER_WIDE = (
    CRD_KIND,
    "ClusterRole",
    "ClusterRoleBinding",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
)
INJECTED = "cert-manager.io/inject-ca-from"
SETTINGS, SETTINGS_FILE = "kubeflow-trainer-config", "controller_manager_config.yaml"
SETTINGS_READ = "trainstack/settings"
REPORTS_GATE, REPORTS_PORT = "TrainJobStatus", 10443
"""The feature gate for reports of a TrainJob's progress, and the port of pod and Service that receives them."""
UNLESS_DELETED = {"name": "is-not-being-deleted", "expression": "!has(object.metadata.deletionTimestamp)"}
"""Trainer refuses each change of a TrainJob whose runtime is gone, also the removal of a finalizer. So a TrainJob would
stay for ever if it is deleted after its runtime. Source: `ValidateObjects` in pkg/runtime/core/trainingruntime.go."""
REPORTS_END_S = 5
"""Seconds until Trainer's controller is killed, if it receives reports. Such a controller never ends by itself, and its
successor waits for its lease: `Start` in pkg/statusserver/server.go of Kubeflow Trainer 2.3.0 waits for a channel that
is never closed."""


def additions() -> list[Manifest]:
    """What upstream's overlay generates: the Secret of the certificate, and the version for Kubeflow's clients."""
    version = {"kubeflow_trainer_version": TRAINER_VERSION}
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": CERTIFICATE}, "type": "Opaque"},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": PUBLIC}, "data": version},
    ]


def crd(upstream: Manifest) -> Manifest:
    """The CRD without cert-manager, and without conversion: each CRD has only one version."""
    changed = copy.deepcopy(upstream)
    changed["spec"].pop("conversion", None)
    changed["metadata"].get("annotations", {}).pop(INJECTED, None)
    return changed


def validation(upstream: Manifest) -> Manifest:
    """Upstream's webhooks. Those of Trainer do not check what is being deleted."""
    changed = copy.deepcopy(upstream)
    if changed["metadata"]["name"] == VALIDATION:
        for hook in changed["webhooks"]:
            hook["matchConditions"] = [dict(UNLESS_DELETED)]
    return changed


def deployment(upstream: Manifest, operator: OperatorConfig, reports: bool) -> Manifest:
    """Upstream's Deployment with its release's image, limits, a quick probe, and what `restricted` asks for.

    Parameters:
        operator: section `operator`, with the settings that the controller reads at its start.
        reports: whether the controller receives reports of a TrainJob's progress.
    """
    changed = copy.deepcopy(upstream)
    pod = changed["spec"]["template"]["spec"]
    (manager,) = pod["containers"]
    manager["image"] = IMAGES[changed["metadata"]["name"]]
    confine(pod)
    if changed["metadata"]["name"] == TRAINER:
        if reports:
            pod["terminationGracePeriodSeconds"] = REPORTS_END_S
        # A change of this annotation restarts the controller.
        if read := " ".join(f"{key}={value}" for key, value in throughput(operator).items()):
            metadata = changed["spec"]["template"]["metadata"]
            metadata["annotations"] = {**(metadata.get("annotations") or {}), SETTINGS_READ: read}
    return changed


def configuration(upstream: Manifest, operator: OperatorConfig, reports: bool) -> Manifest:
    """One of upstream's ConfigMaps. The ConfigMap with the controller's settings gets the values of section `operator`.

    Source: Configuration in pkg/apis/config/v1alpha1/configuration_types.go of the trainer.

    Parameters:
        reports: whether the controller receives reports of a TrainJob's progress.
    """
    wanted = throughput(operator)
    if upstream["metadata"]["name"] != SETTINGS or not (wanted or reports):
        return upstream
    settings = yaml.safe_load(upstream["data"][SETTINGS_FILE])
    if reports:
        settings["featureGates"] = {REPORTS_GATE: True}
    if concurrency := wanted.pop("concurrency", None):
        settings["controller"]["groupKindConcurrency"][f"{TRAINJOB.kind}.{TRAINJOB.group}"] = concurrency
    settings["clientConnection"] |= wanted
    return {**upstream, "data": {SETTINGS_FILE: yaml.safe_dump(settings, sort_keys=False)}}


def in_namespace(manifest: Manifest, namespace: str) -> Manifest:
    """`manifest` in `namespace`, with its references to objects there. Upstream's manifests may name no namespace."""
    if manifest["kind"] not in CLUSTER_WIDE:
        manifest = {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}
    return moved(manifest, namespace)


def patched(
    upstream: Iterable[Manifest], stack: str, operator: OperatorConfig, reports: bool = False
) -> list[Manifest]:
    """The objects to register for `stack`, the CRDs first. The namespace is not among them: it outlives them.

    Parameters:
        upstream: JobSet's objects and the trainer's.
        stack: the stack's name, for the labels.
        operator: section `operator`: the controllers' namespace and settings.
        reports: whether the controller receives reports of a TrainJob's progress.
    """
    by_kind: dict[str, Callable[[Manifest], Manifest]] = {
        CRD_KIND: crd,
        "ConfigMap": lambda each: configuration(each, operator, reports),
        "Deployment": lambda each: deployment(each, operator, reports),
        "Service": service,
        "Secret": secret,
        "ValidatingWebhookConfiguration": validation,
    }
    wanted = [each for each in [*upstream, *additions()] if each["kind"] != "Namespace"]
    objects = [by_kind.get(each["kind"], copy.deepcopy)(each) for each in wanted]
    placed = [labelled(explicit(in_namespace(each, operator.namespace)), stack) for each in objects]
    return sorted(placed, key=lambda each: each["kind"] != CRD_KIND)

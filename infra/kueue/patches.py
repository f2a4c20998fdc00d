"""Our changes of Kueue's objects, one pure function each. The objects stay in the namespace that upstream names."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterable
from typing import Any

import yaml

from infra.config.operator import OperatorApi
from infra.objects.job_kinds import KUEUE, PYTORCHJOB, TRAINJOB, JobKind
from infra.objects.manifest import Manifest
from infra.training_operator.patches import CRD_KIND, confine, explicit, labelled, secret, service
from infra.upstream import vendored

PROJECT = "kueue"
REPOSITORY = "registry.k8s.io/kueue/kueue"
# The image that the release publishes. The release's manifests name another image, which the project uses for tests.
IMAGE = f"{REPOSITORY}:{vendored.version(PROJECT)}"
CONTROLLER = "kueue-controller-manager"
FILE = "controller_manager_config.yaml"
CONFIGURATION_DIGEST = "trainstack/kueue-config"
API = "trainstack/operator-api"
"""Annotation of Kueue's pod with the value of `operator.api`: a change of the API restarts Kueue."""
JOBS = (PYTORCHJOB, TRAINJOB)
"""The kinds of jobs that Kueue handles, for each API of the stack.

After a change of the API, Kueue still has to release the Workloads of the old API's jobs: a Workload that is never
released counts against the quota, and prevents the deletion of the CRD of Workloads.
"""
# Kueue's own API for lists of waiting jobs. While it does not answer, no namespace of the cluster can be deleted.
VISIBILITY, VISIBILITY_GATE = "visibility", "VisibilityOnDemand"


def admitted(api: OperatorApi) -> list[JobKind]:
    """The kinds of jobs that Kueue's webhooks see in a stack of `api`.

    Kueue waits for a CRD that the cluster lacks (setupControllers in pkg/controller/jobframework/setup.go). For
    TrainJobs this fails when the CRD is created ("setting index on runtimeClass"), and the webhook then refuses each
    TrainJob. So the webhooks do not see TrainJobs in a stack of v1, and a change of the API restarts Kueue.
    """
    return [PYTORCHJOB, *([TRAINJOB] if api is OperatorApi.V2 else [])]


def is_wanted(each: Manifest, bound: set[str]) -> bool:
    """Whether the stack registers an object. Namespaces, roles for users and objects of VISIBILITY are left out.

    Parameters:
        bound: names of Kueue's own roles.
    """
    name, kind = each["metadata"]["name"], each["kind"]
    return (
        kind not in ("Namespace", "APIService")
        and (kind != "ClusterRole" or name in bound)
        and (kind == CRD_KIND or VISIBILITY not in name)
    )


def configuration(upstream: Manifest) -> Manifest:
    """Kueue's configuration with only the kinds of JOBS."""
    settings = yaml.safe_load(upstream["data"][FILE])
    settings["integrations"] = {"frameworks": [f"{each.group}/{each.kind.lower()}" for each in JOBS]}
    settings["featureGates"] = {VISIBILITY_GATE: False}
    return {**upstream, "data": {FILE: yaml.safe_dump(settings, sort_keys=False)}}


def webhooks(upstream: Manifest, jobs: Iterable[JobKind]) -> Manifest:
    """The webhooks of Kueue's own kinds and of these kinds of jobs.

    Upstream has more webhooks, for each pod and Deployment of the cluster. With them, no pod and no Deployment could be
    created while Kueue does not run.
    """
    known = {(each.group, each.plural) for each in jobs}

    def is_ours(hook: dict[str, Any]) -> bool:
        return all(
            group == KUEUE or (group, resource) in known
            for rule in hook["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
        )

    return {**upstream, "webhooks": [each for each in upstream["webhooks"] if is_ours(each)]}


def deployment(upstream: Manifest, configured: Manifest, api: OperatorApi) -> Manifest:
    """Upstream's Deployment with its release's image, limits, a quick probe, and what `restricted` asks for.

    Parameters:
        configured: the ConfigMap. Kueue reads it only at its start, so a change restarts Kueue.
        api: the API of the stack's jobs.
    """
    changed = copy.deepcopy(upstream)
    template = changed["spec"]["template"]
    (manager,) = template["spec"]["containers"]
    manager["image"] = IMAGE
    # Then the image's entry point runs, and nodes do not pull this version again.
    del manager["command"], manager["imagePullPolicy"]
    confine(template["spec"])
    digest = hashlib.sha256(configured["data"][FILE].encode()).hexdigest()[:12]
    template["metadata"]["annotations"] |= {CONFIGURATION_DIGEST: digest, API: api.value}
    return changed


def patched(upstreams: Iterable[Manifest], stack: str, api: OperatorApi) -> list[Manifest]:
    """The objects to register for `stack`, CRDs first. The namespace is not among them: it outlives them.

    Parameters:
        upstreams: Kueue's objects.
        stack: the stack's name, for the labels.
        api: the API of the stack's jobs.
    """
    found, jobs = [*upstreams], admitted(api)
    bound = {each["roleRef"]["name"] for each in found if "roleRef" in each}
    wanted = [each for each in found if is_wanted(each, bound)]
    (configured,) = [configuration(each) for each in wanted if each["kind"] == "ConfigMap"]
    by_kind: dict[str, Callable[[Manifest], Manifest]] = {
        "ConfigMap": configuration,
        "Deployment": lambda each: deployment(each, configured, api),
        "MutatingWebhookConfiguration": lambda each: webhooks(each, jobs),
        "Secret": secret,
        "Service": service,
        "ValidatingWebhookConfiguration": lambda each: webhooks(each, jobs),
    }
    objects = [by_kind.get(each["kind"], copy.deepcopy)(each) for each in wanted]
    return sorted(
        (labelled(explicit(each), stack) for each in objects), key=lambda each: each["kind"] != CRD_KIND
    )

"""What we change in upstream's objects, one pure function each."""

from __future__ import annotations

import copy
import hashlib
from typing import Any

import yaml

from infra.objects.job_kinds import GANG_SCHEDULER
from infra.objects.manifest import Manifest
from infra.training_operator.patches import CRD_KIND, confine, explicit, labelled, moved
from infra.upstream import vendored

PROJECT = "scheduler-plugins"
RELEASE = PROJECT
"""The namespace that the vendored chart is rendered for."""
CONTROLLER = "scheduler-plugins-controller"
REPOSITORIES = (
    "registry.k8s.io/scheduler-plugins/kube-scheduler",
    "registry.k8s.io/scheduler-plugins/controller",
)
# The images that the release publishes.
IMAGES = {
    GANG_SCHEDULER: f"{REPOSITORIES[0]}:{vendored.version(PROJECT)}",
    CONTROLLER: f"{REPOSITORIES[1]}:{vendored.version(PROJECT)}",
}
CONFIGURATION, FILE = "scheduler-config", "scheduler-config.yaml"
CONFIGURATION_DIGEST = "trainstack/scheduler-config"
# Its health endpoint, which upstream's chart does not ask (cmd/controller/app/options.go).
CONTROLLER_PROBE = {"httpGet": {"path": "/readyz", "port": 8081}}
# A pod that Coscheduling 0.33.5 has refused hears only of new pods and of PodGroups that change (EventsToRegister in
# pkg/coscheduling/coscheduling.go), not of pods that end elsewhere: it is tried again after this time, not after 300 s.
RETRY = "--pod-max-in-unschedulable-pods-duration=30s"


def profile() -> dict[str, Any]:
    """Upstream's configuration of a scheduler with the plugin Coscheduling alone."""
    found: dict[str, Any] = yaml.safe_load((vendored.folder(PROJECT) / FILE).read_text())
    return found


def placed(manifest: Manifest, namespace: str) -> Manifest:
    """`manifest` in `namespace`; what upstream has in a namespace of Kubernetes' own stays there."""
    before = manifest["metadata"].get("namespace", RELEASE)
    changed = moved(manifest, namespace)
    if before != RELEASE:
        changed["metadata"]["namespace"] = before
    return changed


def configuration(profile: dict[str, Any], namespace: str) -> Manifest:
    """The ConfigMap with upstream's profile under our scheduler's name; in its pod it finds the API server itself."""
    (only,) = profile["profiles"]
    ours = {key: value for key, value in profile.items() if key != "clientConnection"}
    text = yaml.safe_dump({**ours, "profiles": [{**only, "schedulerName": GANG_SCHEDULER}]}, sort_keys=False)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIGURATION, "namespace": namespace},
        "data": {FILE: text},
    }


def deployment(upstreams: Manifest, configured: Manifest) -> Manifest:
    """Upstream's Deployment with limits, a quick probe, and what Pod Security's `restricted` asks for.

    Parameters:
        configured: the scheduler's ConfigMap, which it reads once: another one has to start it anew.
    """
    changed = copy.deepcopy(upstreams)
    template = changed["spec"]["template"]
    (program,) = template["spec"]["containers"]
    program["image"] = IMAGES[changed["metadata"]["name"]]
    # The image's own entry point: ours have the program elsewhere.
    program.pop("command", None)
    program.setdefault("readinessProbe", dict(CONTROLLER_PROBE))
    confine(template["spec"])
    # The server leaves out what is false: every refresh would find it missing.
    template["spec"] = {key: value for key, value in template["spec"].items() if value is not False}
    if changed["metadata"]["name"] == GANG_SCHEDULER:
        digest = hashlib.sha256(configured["data"][FILE].encode()).hexdigest()[:12]
        template["metadata"]["annotations"] = {CONFIGURATION_DIGEST: digest}
        program["args"] = [*(program.get("args") or []), RETRY]
    return changed


def renamed(manifest: Manifest) -> Manifest:
    """`manifest` without the `::` that one name of upstream's has: Pulumi separates the parts of a URN so."""
    metadata = manifest["metadata"]
    return {**manifest, "metadata": {**metadata, "name": metadata["name"].replace("::", "-")}}


def patched(upstreams: list[Manifest], profile: dict[str, Any], stack: str, namespace: str) -> list[Manifest]:
    """The objects to register for `stack`, the CRDs first.

    Parameters:
        upstreams: upstream's objects.
        profile: upstream's configuration of a scheduler with the plugin.
        stack: the stack's name, for the labels.
        namespace: the scheduler's and its controller's.
    """
    configured = configuration(profile, namespace)
    objects = [
        deployment(each, configured) if each["kind"] == "Deployment" else each
        for each in [*(placed(each, namespace) for each in upstreams), configured]
    ]
    return sorted(
        (labelled(explicit(renamed(each)), stack) for each in objects),
        key=lambda each: each["kind"] != CRD_KIND,
    )

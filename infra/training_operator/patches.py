"""What we change in upstream's objects, one pure function each."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable

from infra.objects.labels import SKIP_AWAIT, owned
from infra.objects.manifest import Manifest
from infra.objects.pod_security import restricted_container
from infra.objects.pytorchjob import CRD

NAMESPACE = "kubeflow"
NAME = "training-operator"
CRD_KIND = "CustomResourceDefinition"
WEBHOOK_PATH = "/validate-kubeflow-org-v1-pytorchjob"
INIT_IMAGE = "busybox:1.37"
INIT_TEMPLATE = "initContainer.yaml"
INIT_FOLDER = "/etc/config"
# Where the operator's default looks up a name, ours waits for what the workers need: rank 0's listening port.
INIT_CONTAINER = """\
- name: init-pytorch
  image: {{.InitContainerImage}}
  imagePullPolicy: IfNotPresent
  command:
  - sh
  - -c
  - |
    trap "exit 143" TERM
    for i in $(seq 600); do nc -w 2 {{.MasterAddr}} 23456 -e true && exit 0; sleep 0.5; done
    echo "rank 0 ({{.MasterAddr}}) does not listen on port 23456"; exit 1
  resources:
    limits: {cpu: 100m, memory: 32Mi}
    requests: {cpu: 10m, memory: 8Mi}
  securityContext:
    allowPrivilegeEscalation: false
    capabilities: {drop: [ALL]}
    readOnlyRootFilesystem: true
    runAsNonRoot: true
    runAsUser: 1000
    seccompProfile: {type: RuntimeDefault}
"""
LIMITS = {"cpu": "500m", "memory": "512Mi"}
REQUESTS = {"cpu": "50m", "memory": "64Mi"}


def only_pytorch(objects: Iterable[Manifest]) -> list[Manifest]:
    """`objects` without the CRDs and webhooks of other frameworks, 2.5 MB that Pulumi would keep in its state."""
    kept = []
    for each in objects:
        if each["kind"] == CRD_KIND and each["metadata"]["name"] != CRD:
            continue
        if each["kind"] == "ValidatingWebhookConfiguration":
            hooks = [
                hook for hook in each["webhooks"] if hook["clientConfig"]["service"]["path"] == WEBHOOK_PATH
            ]
            each = {**each, "webhooks": hooks}
        kept.append(each)
    return kept


def init_template() -> Manifest:
    """The ConfigMap with the template of the workers' init container."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{NAME}-init", "namespace": NAMESPACE},
        "data": {INIT_TEMPLATE: INIT_CONTAINER},
    }


def deployment(upstream: Manifest, image: str | None, init_image: str) -> Manifest:
    """Upstream's Deployment with limits, a quick readiness probe, and what Pod Security's `restricted` asks for.

    Parameters:
        upstream: the Deployment as the overlay has it.
        image: the operator's image; None keeps upstream's.
        init_image: the image of the workers' init container.
    """
    changed = copy.deepcopy(upstream)
    pod = changed["spec"]["template"]["spec"]
    manager = pod["containers"][0]
    if image:
        manager["image"] = image
    manager["args"] = [
        "--enable-scheme=pytorchjob",
        f"--pytorch-init-container-image={init_image}",
        f"--pytorch-init-container-template-file={INIT_FOLDER}/{INIT_TEMPLATE}",
        "--zap-log-level=info",
    ]
    manager["resources"] = {"limits": dict(LIMITS), "requests": dict(REQUESTS)}
    manager["securityContext"] = restricted_container()
    manager["readinessProbe"] |= {"initialDelaySeconds": 1, "periodSeconds": 1}
    manager["volumeMounts"].append({"name": "init", "mountPath": INIT_FOLDER, "readOnly": True})
    pod["volumes"].append({"name": "init", "configMap": {"name": f"{NAME}-init"}})
    pod["securityContext"] = {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    return changed


def labelled(manifest: Manifest, stack: str) -> Manifest:
    """`manifest` with the labels of what `stack` owns."""
    metadata = manifest["metadata"]
    return {**manifest, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), **owned(stack)}}}


def service(manifest: Manifest) -> Manifest:
    """The Service without Pulumi's wait for endpoints: the Deployment and the webhook's answer are waited for."""
    metadata = manifest["metadata"]
    annotations = {**metadata.get("annotations", {}), **SKIP_AWAIT}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def secret(manifest: Manifest) -> Manifest:
    """The Secret without `data: {}`, since the operator writes its certificates there."""
    return {key: value for key, value in manifest.items() if key != "data"}


def patched(upstream: Iterable[Manifest], stack: str, image: str | None, init_image: str) -> list[Manifest]:
    """The objects to register for `stack`, the CRD first. The namespace is not among them: it outlives the operator.

    Parameters:
        upstream: the overlay's objects.
        stack: the stack's name, for the labels.
        image: the operator's image; None keeps upstream's.
        init_image: the image of the workers' init container.
    """
    by_kind: dict[str, Callable[[Manifest], Manifest]] = {
        "Deployment": lambda each: deployment(each, image, init_image),
        "Service": service,
        "Secret": secret,
    }
    wanted = [each for each in only_pytorch(upstream) if each["kind"] != "Namespace"]
    objects = [by_kind.get(each["kind"], copy.deepcopy)(each) for each in wanted]
    objects.append(init_template())
    return sorted((labelled(each, stack) for each in objects), key=lambda each: each["kind"] != CRD_KIND)

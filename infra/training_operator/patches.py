"""Our changes of the training-operator's objects, one pure function each."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from infra.config.operator import OperatorConfig
from infra.objects.job_kinds import PYTORCHJOB
from infra.objects.labels import SKIP_AWAIT, stack_labels
from infra.objects.manifest import Manifest
from infra.objects.pod_security import restricted_container

NAME = "training-operator"
CRD_KIND = "CustomResourceDefinition"
WEBHOOK_PATH = "/validate-kubeflow-org-v1-pytorchjob"
IMAGE = "ghcr.io/kubeflow/training-v1/training-operator:v1-d6eb98e"
"""The image that the vendored manifests name."""
INIT_IMAGE = "busybox:1.37"
INIT_TEMPLATE = "initContainer.yaml"
INIT_FOLDER = "/etc/config"
TEMPLATE_DIGEST = "trainstack/init-template"
# The operator's default waits until rank 0's name resolves. Ours waits until rank 0 listens, because the workers of our
# jobs need that. Our jobs name no port, so rank 0 listens on the operator's default port. Others' jobs may name another
# port; they do not have the label of our runs, and for them it is enough that the name resolves.
INIT_CONTAINER = """\
- name: init-pytorch
  image: {{.InitContainerImage}}
  imagePullPolicy: IfNotPresent
  env:
  - name: RUN
    valueFrom: {fieldRef: {fieldPath: "metadata.labels['trainstack/run']"}}
  command:
  - sh
  - -c
  - |
    trap "exit 143" TERM
    if [ -n "$RUN" ]; then port=23456; else port=1; fi
    for i in $(seq 600); do
      if now=$(nc -w 2 {{.MasterAddr}} $port -e true 2>&1); then exit 0; fi
      if [ -z "$RUN" ]; then case "$now" in *"bad address"*) ;; *) exit 0 ;; esac; fi
      if [ "$now" != "$said" ]; then echo "$now"; said=$now; fi
      sleep 0.5
    done
    echo "rank 0 ({{.MasterAddr}}) did not come: $now"; exit 1
  resources:
    limits: {cpu: 100m, memory: 32Mi}
    requests: {cpu: 10m, memory: 32Mi}
  securityContext:
    allowPrivilegeEscalation: false
    capabilities: {drop: [ALL]}
    readOnlyRootFilesystem: true
    runAsNonRoot: true
    runAsUser: 1000
    seccompProfile: {type: RuntimeDefault}
"""
THROUGHPUT_FLAGS = {
    "concurrency": "--controller-threads",
    "qps": "--kube-api-qps",
    "burst": "--kube-api-burst",
}
"""Key of section `operator` -> the training-operator's flag (cmd/training-operator.v1/main.go)."""
LIMITS = {"cpu": "500m", "memory": "512Mi"}
REQUESTS = {"cpu": "50m", "memory": "256Mi"}

# Kind -> fields of its spec that `kubectl scale` and `kubectl edit` change, with their values if upstream sets none.
DEFAULTS: dict[str, Manifest] = {"Deployment": {"replicas": 1}, "Service": {"type": "ClusterIP"}}


def throughput(operator: OperatorConfig) -> dict[str, int]:
    """The stack file's keys of THROUGHPUT_FLAGS, with their values."""
    return {key: value for key in THROUGHPUT_FLAGS if (value := getattr(operator, key)) is not None}


def throughput_flags(operator: OperatorConfig) -> list[str]:
    """The training-operator's arguments for the keys of THROUGHPUT_FLAGS."""
    return [f"{THROUGHPUT_FLAGS[key]}={value}" for key, value in throughput(operator).items()]


def only_pytorch(objects: Iterable[Manifest]) -> list[Manifest]:
    """`objects` without the CRDs and webhooks of other frameworks, 2.5 MB that Pulumi would keep in its state."""
    kept = []
    for each in objects:
        if each["kind"] == CRD_KIND and each["metadata"]["name"] != PYTORCHJOB.crd:
            continue
        if each["kind"] == "ValidatingWebhookConfiguration":
            hooks = [
                hook for hook in each["webhooks"] if hook["clientConfig"]["service"]["path"] == WEBHOOK_PATH
            ]
            each = {**each, "webhooks": hooks}
        kept.append(each)
    return kept


def init_template(namespace: str) -> Manifest:
    """The ConfigMap with the template of the workers' init container."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{NAME}-init", "namespace": namespace},
        "data": {INIT_TEMPLATE: INIT_CONTAINER},
    }


def deployment(
    upstream: Manifest,
    flags: Sequence[str] = (),
) -> Manifest:
    """Upstream's Deployment with limits, a quick readiness probe, and what Pod Security's `restricted` asks for.

    Parameters:
        upstream: upstream's Deployment.
        flags: the operator's further arguments.
    """
    changed = copy.deepcopy(upstream)
    template = changed["spec"]["template"]
    # The operator reads the template once, so a change has to restart it.
    digest = hashlib.sha256(INIT_CONTAINER.encode()).hexdigest()[:12]
    annotations = template["metadata"].get("annotations") or {}
    template["metadata"]["annotations"] = {**annotations, TEMPLATE_DIGEST: digest}
    pod = template["spec"]
    manager = pod["containers"][0]
    manager["args"] = [
        "--enable-scheme=pytorchjob",
        f"--pytorch-init-container-image={INIT_IMAGE}",
        f"--pytorch-init-container-template-file={INIT_FOLDER}/{INIT_TEMPLATE}",
        "--zap-log-level=info",
        *flags,
    ]
    confine(pod)
    manager["volumeMounts"].append({"name": "init", "mountPath": INIT_FOLDER, "readOnly": True})
    pod["volumes"].append({"name": "init", "configMap": {"name": f"{NAME}-init"}})
    return changed


def confine(pod: dict[str, Any]) -> None:
    """Give the pod of a controller limits, a quick readiness probe, and what Pod Security's `restricted` asks for.

    Parameters:
        pod: the spec, with the controller as its first container; changed in place.
    """
    manager = pod["containers"][0]
    manager["resources"] = {"limits": dict(LIMITS), "requests": dict(REQUESTS)}
    manager["securityContext"] = restricted_container()
    manager["readinessProbe"] |= {"initialDelaySeconds": 1, "periodSeconds": 1}
    pod["securityContext"] = {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def explicit(manifest: Manifest) -> Manifest:
    """`manifest` with the fields of DEFAULTS: an update corrects only fields that the manifest names."""
    defaults = DEFAULTS.get(manifest["kind"])
    return {**manifest, "spec": {**defaults, **manifest["spec"]}} if defaults else manifest


def labelled(manifest: Manifest, stack: str) -> Manifest:
    """`manifest` with the labels of `stack`."""
    metadata = manifest["metadata"]
    return {
        **manifest,
        "metadata": {**metadata, "labels": {**metadata.get("labels", {}), **stack_labels(stack)}},
    }


def service(manifest: Manifest) -> Manifest:
    """The Service without Pulumi's wait for endpoints: we wait for the Deployment and the webhook's answer."""
    metadata = manifest["metadata"]
    annotations = {**metadata.get("annotations", {}), **SKIP_AWAIT}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def secret(manifest: Manifest) -> Manifest:
    """The Secret without `data: {}`: the operator writes its certificates there."""
    return {key: value for key, value in manifest.items() if key != "data"}


def moved(manifest: Manifest, namespace: str) -> Manifest:
    """`manifest` in `namespace`, with all its references to objects there.

    The operator itself reads its namespace from its pod (getOperatorNamespace in pkg/cert/cert.go).
    """
    place = {"namespace": namespace}
    changed = copy.deepcopy(manifest)
    if "namespace" in changed["metadata"]:
        changed["metadata"] |= place
    for subject in changed.get("subjects") or []:
        subject |= place
    for hook in changed.get("webhooks") or []:
        hook["clientConfig"]["service"] |= place
    return changed


def patched(
    upstream: Iterable[Manifest],
    stack: str,
    namespace: str,
    flags: Sequence[str] = (),
) -> list[Manifest]:
    """The objects to register for `stack`, the CRD first. The namespace is not among them: it outlives them.

    Parameters:
        upstream: its objects.
        stack: the stack's name, for the labels.
        namespace: the operator's.
        flags: the operator's further arguments.
    """
    by_kind: dict[str, Callable[[Manifest], Manifest]] = {
        "Deployment": lambda each: deployment(each, flags),
        "Service": service,
        "Secret": secret,
    }
    wanted = [each for each in only_pytorch(upstream) if each["kind"] != "Namespace"]
    objects = [moved(by_kind.get(each["kind"], copy.deepcopy)(each), namespace) for each in wanted]
    objects.append(init_template(namespace))
    return sorted(
        (labelled(explicit(each), stack) for each in objects), key=lambda each: each["kind"] != CRD_KIND
    )

"""Brings a model from a volume that is not on this machine to models/<stack>/, through a pod that only reads."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
import uuid
from pathlib import Path
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, ReadResult, Resource

from infra.dynamic import Props, Provider, missing, own
from infra.objects.api import ApiAddress
from infra.objects.labels import MANAGED_BY
from infra.objects.manifest import Manifest
from infra.objects.pod_security import restricted_container
from infra.process import output

WAIT = "180s"
LIFETIME_S = 600


class CopyError(RuntimeError):
    """The model is not where the run should have left it."""


def reader(name: str, namespace: str, image: str, claim: str, mount_path: str) -> Manifest:
    """A pod that mounts the claim read-only, and ends by itself should nobody delete it."""
    container = {
        "name": "reader",
        "image": image,
        "command": ["sleep", str(LIFETIME_S)],
        "resources": {
            "limits": {"cpu": "200m", "memory": "64Mi"},
            "requests": {"cpu": "10m", "memory": "16Mi"},
        },
        "securityContext": restricted_container(),
        "volumeMounts": [{"name": "models", "mountPath": mount_path, "readOnly": True}],
    }
    volume = {"name": "models", "persistentVolumeClaim": {"claimName": claim, "readOnly": True}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(MANAGED_BY)},
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": LIFETIME_S,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "securityContext": {"runAsUser": 1000, "runAsGroup": 0, "runAsNonRoot": True},
            "containers": [container],
            "volumes": [volume],
        },
    }


def kubectl(address: ApiAddress) -> list[str]:
    where = ["--kubeconfig", address.kubeconfig] if address.kubeconfig else []
    return ["kubectl", *where, *(["--context", address.context] if address.context else [])]


# The run's own model; a hand-written trainer may know of the volume's folder only.
FIRST_THERE = 'for file; do if [ -e "$file" ]; then exec cat "$file"; fi; done; echo "no $*" >&2; exit 1'


def fetch(address: ApiAddress, pod: Manifest, sources: list[str], target: Path) -> str:
    """Run `pod`, copy the first of `sources` in it to `target` in one step, delete the pod; the file's SHA-256.

    Raises CopyError.
    """
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    command = [*kubectl(address), "--namespace", namespace]
    output(*command, "create", "--filename", "-", stdin=json.dumps(pod))
    try:
        output(*command, "wait", f"pod/{name}", "--for=condition=Ready", f"--timeout={WAIT}")
        return _receive([*command, "exec", name, "--", "sh", "-c", FIRST_THERE, "read", *sources], target)
    finally:
        output(*command, "delete", "pod", name, "--wait=false", "--ignore-not-found")


def _receive(command: list[str], target: Path) -> str:
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, partial = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            done = subprocess.run(command, stdout=file, stderr=subprocess.PIPE)
            os.fsync(file.fileno())
        if done.returncode:
            raise CopyError(
                f"the run left no model on the volume: {done.stderr.decode(errors='replace').strip()}"
            )
        os.chmod(partial, 0o644)
        os.replace(partial, target)
    finally:
        Path(partial).unlink(missing_ok=True)
    return hashlib.sha256(target.read_bytes()).hexdigest()


class CopyProvider(Provider):
    """Properties: `kubeconfigPath`, `context`, `namespace`, `image`, `claim`, `mountPath`, `model`,
    `run`, `uid`, `target`.

    What was copied is never deleted.
    """

    replaced_by = ("uid", "run", "target")

    def create(self, props: Props) -> CreateResult:
        name = f"trainstack-reader-{uuid.uuid4().hex[:8]}"
        pod = reader(name, props["namespace"], props["image"], props["claim"], props["mountPath"])
        sources = [f"{props['mountPath']}/{each}{props['model']}" for each in (f"runs/{props['run']}/", "")]
        digest = fetch(ApiAddress.of(props), pod, sources, Path(props["target"]))
        return CreateResult(props["run"], own(props) | {"sha256": digest})

    def read(self, id_: str, props: Props) -> ReadResult:
        return ReadResult(id_, own(props)) if Path(props["target"]).exists() else missing()


class ModelCopy(Resource, module="trainstack", name="ModelCopy"):
    """The model on this machine. Outputs: `target`, `sha256`."""

    target: pulumi.Output[str]
    sha256: pulumi.Output[str]

    def __init__(self, name: str, props: dict[str, Any], opts: pulumi.ResourceOptions) -> None:
        super().__init__(CopyProvider(), name, {**props, "sha256": None}, opts)

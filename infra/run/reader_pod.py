"""A pod that only reads a volume which is not on this machine, and what kubectl gets out of it."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any

from infra.objects.api import ApiAddress
from infra.objects.labels import MANAGED_BY
from infra.objects.patience import Patience
from infra.objects.pod_security import restricted_container
from infra.process import CommandError, environment, output
from storage.manifests import Manifest

NAME_PREFIX = "trainstack-reader-"
READY_WAIT = "180s"
# The pod ends by itself after so many seconds, should nobody delete it.
DEADLINE_S = 600
MISSING = 66
FIRST_THERE = (
    f'for file; do if [ -e "$file" ]; then exec cat "$file"; fi; done; echo "no $*" >&2; exit {MISSING}'
)
# The folder's files as an archive, with their times. Nothing where there is no such folder, or no tar in the image.
ARCHIVE = 'cd "$1" 2>/dev/null && command -v tar >/dev/null || exit 0; exec tar -cf - .'
# What kubectl says of an API server that is away for a while.
AWAY = (
    "refused",
    "reset by peer",
    "EOF",
    "TLS handshake timeout",
    "i/o timeout",
    "ServiceUnavailable",
    "server is currently unable",
    "Too Many Requests",
)


class ReadError(RuntimeError):
    """None of the files is on the volume, or the copy broke off."""


@dataclass(frozen=True)
class MountedClaim:
    """Where a volume can be read.

    Parameters:
        image: any with `sh`, `cat` and `sleep`, and `tar` for whole folders; the trainer's is on the nodes already.
        claim: the PersistentVolumeClaim, in `namespace`.
        mount_path: where the pod mounts it.
        fields: of a pod's spec, that it needs to get to the volume's node and to pull the image.
    """

    address: ApiAddress
    namespace: str
    image: str
    claim: str
    mount_path: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_props(cls, props: dict[str, Any]) -> MountedClaim:
        """From a dynamic resource's properties."""
        place = (props["namespace"], props["image"], props["claim"], props["mountPath"])
        # `tolerations` alone: what a state of before `pod` holds.
        fields = props.get("pod") or {"tolerations": props.get("tolerations") or []}
        return cls(ApiAddress.from_props(props), *place, fields)


def manifest(
    name: str,
    volume: MountedClaim,
    command: Sequence[str] = ("sleep", str(DEADLINE_S)),
    *,
    node: str = "",
    writes: bool = False,
) -> Manifest:
    """A pod that has the claim, for as long as `command` runs.

    Parameters:
        node: the only one where it may run; empty for any that the scheduler takes.
        writes: whether it may change the volume.
    """
    container = {
        "name": "reader",
        "image": volume.image,
        "command": list(command),
        "resources": {
            "limits": {"cpu": "200m", "memory": "64Mi"},
            "requests": {"cpu": "10m", "memory": "64Mi"},
        },
        "securityContext": restricted_container(),
        "volumeMounts": [{"name": "models", "mountPath": volume.mount_path, "readOnly": not writes}],
    }
    source = {"claimName": volume.claim, "readOnly": not writes}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": volume.namespace, "labels": dict(MANAGED_BY)},
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": DEADLINE_S,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            **volume.fields,
            **({"affinity": _only_on(node)} if node else {}),
            "securityContext": {
                **volume.fields.get("securityContext", {}),
                "runAsUser": 1000,
                "runAsGroup": 0,
                "runAsNonRoot": True,
            },
            "containers": [container],
            "volumes": [{"name": "models", "persistentVolumeClaim": source}],
        },
    }


def _only_on(node: str) -> Manifest:
    """As DaemonSets do it: the scheduler sees to it that the node has room."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def kubectl(address: ApiAddress) -> list[str]:
    """The words of a command line that reaches the cluster at `address`."""
    where = ["--kubeconfig", address.kubeconfig] if address.kubeconfig else []
    return ["kubectl", *where, *(["--context", address.context] if address.context else [])]


@contextmanager
def running(volume: MountedClaim, patience: Patience) -> Iterator[list[str]]:
    """The start of a command line that runs a program in the pod, for as long as the block lasts."""
    name = f"{NAME_PREFIX}{uuid.uuid4().hex[:8]}"
    command = [*kubectl(volume.address), "--namespace", volume.namespace]
    pod = json.dumps(manifest(name, volume))
    # `apply`, not `create`: the answer to the first may have been lost.
    patience.ask(lambda: _kubectl(*command, "apply", "--filename", "-", stdin=pod))
    try:
        ready = ("--for=condition=Ready", f"--timeout={READY_WAIT}")
        patience.ask(lambda: _kubectl(*command, "wait", f"pod/{name}", *ready))
        yield [*command, "exec", name, "--"]
    finally:
        patience.ask(lambda: _kubectl(*command, "delete", "pod", name, "--wait=false", "--ignore-not-found"))


def _kubectl(*command: str, stdin: str | None = None) -> str:
    """Standard output of kubectl. Raises ConnectionError where the API server is away, else CommandError."""
    try:
        return output(*command, stdin=stdin)
    except CommandError as error:
        _raise_if_away(str(error))
        raise


def _raise_if_away(said: str) -> None:
    if any(phrase in said for phrase in AWAY):
        raise ConnectionError(said.strip().splitlines()[-1])


def read_first(inside: list[str], files: list[str], target: IO[bytes], patience: Patience) -> None:
    """Write the content of the first of `files`, paths in the pod, that is there.

    Parameters:
        inside: what `running` gives.

    Raises ReadError, UnreachableError.
    """
    patience.ask(lambda: _in_pod(inside, FIRST_THERE, files, target))


def read_folder(inside: list[str], folder: str, target: IO[bytes], patience: Patience) -> None:
    """Write a tar archive of `folder`, a path in the pod; nothing where there is none. As `read_first` otherwise."""
    patience.ask(lambda: _in_pod(inside, ARCHIVE, [folder], target))
    target.seek(0)


def _in_pod(inside: list[str], script: str, arguments: list[str], target: IO[bytes]) -> None:
    """Write what `script` prints in the pod. Raises ReadError, and ConnectionError where the API server is away."""
    target.seek(0)
    target.truncate()
    command = [*inside, "sh", "-c", script, "read", *arguments]
    done = subprocess.run(command, stdout=target, stderr=subprocess.PIPE, env=environment())
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        if done.returncode != MISSING:
            _raise_if_away(said)
        raise ReadError(said)

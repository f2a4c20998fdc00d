"""A pod that reads a remote volume, or writes into a run's folder on it. kubectl starts programs in the pod."""

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
from infra.objects.pod_security import restricted_container
from infra.objects.retry import Patience
from infra.process import CommandError, environment, output
from storage.manifests import Manifest

NAME_PREFIX = "trainstack-reader-"
READY_WAIT = "180s"
# The pod ends by itself after this time, in seconds, if it is not deleted.
DEADLINE_S = 600
MISSING = 66
FIRST_THERE = (
    'for file; do if [ -e "$file" ]; then exec cat "$file"; fi; done; '
    f'echo "none of these files exists: $*" >&2; exit {MISSING}'
)
# Prints the folder's files as an archive, with their times; nothing if the folder is missing or the image has no tar.
ARCHIVE = 'cd "$1" 2>/dev/null && command -v tar >/dev/null || exit 0; exec tar -cf - .'
# Writes the files of an archive, each in one step, into the folder of run $2 on the volume $1. If run.json in this
# folder belongs to the user's program (see Record.keep), no file is written. Each file gets the time of the model $3,
# which says when the run ended. With $4 = top, the model is copied to the top of the volume if the model there is
# missing or older.
_PUT = """
umask 002
mkdir -p "$1/runs/$2"
cd "$1/runs/$2"
own=
case "$(cat run.json 2>/dev/null)" in
    "" | *'"uid"'*'"outcome"'*)
        mkdir -p .record
        tar -xf - -C .record
        if [ -n "$3" ] && [ -f "$3" ]; then touch -r "$3" .record/*; fi
        mv -f .record/* .
        rmdir .record ;;
    *) own="$1/runs/$2/run.json belongs to your program" ;;
esac
if [ "$4" = top ] && [ -n "$3" ] && [ -f "$3" ] && { [ ! -e "$1/$3" ] || [ "$3" -nt "$1/$3" ]; }; then
    cp "$3" "$1/.$3.$2"
    mv "$1/.$3.$2" "$1/$3"
fi
[ -z "$own" ] || { echo "$own" >&2; exit 1; }
"""
# Messages of kubectl while the API server is away.
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
    """None of the files is on the volume, or the copy failed."""


@dataclass(frozen=True)
class MountedClaim:
    """A claim, and how a pod of ours mounts it.

    Parameters:
        image: an image with `sh`, `cat`, `sleep`, and `tar` for whole folders; nodes already have the trainer's image.
        claim: the PersistentVolumeClaim, in `namespace`.
        mount_path: where the pod mounts it.
        fields: fields of the pod's spec, to reach the volume's node and to pull the image.
        user: id of the pod's user, who is in group 0.
    """

    address: ApiAddress
    namespace: str
    image: str
    claim: str
    mount_path: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    user: int = 1000

    @classmethod
    def from_props(cls, props: dict[str, Any]) -> MountedClaim:
        """From a dynamic resource's properties."""
        place = (props["namespace"], props["image"], props["claim"], props["mountPath"])
        return cls(
            ApiAddress.from_props(props), *place, props.get("pod") or {}, int(props.get("user") or 1000)
        )


def manifest(
    name: str,
    volume: MountedClaim,
    command: Sequence[str] = ("sleep", str(DEADLINE_S)),
    *,
    node: str = "",
    writes: bool = False,
) -> Manifest:
    """A pod that mounts the claim, and runs as long as `command`.

    Parameters:
        node: the only node where it may run; empty for any node.
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
                "runAsUser": volume.user,
                "runAsGroup": 0,
                "runAsNonRoot": True,
            },
            "containers": [container],
            "volumes": [{"name": "models", "persistentVolumeClaim": source}],
        },
    }


def _only_on(node: str) -> Manifest:
    """Affinity to one node, as in DaemonSets: the scheduler checks that the node has room."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def kubectl(address: ApiAddress) -> list[str]:
    """The beginning of a kubectl command for the cluster at `address`."""
    where = ["--kubeconfig", address.kubeconfig] if address.kubeconfig else []
    return ["kubectl", *where, *(["--context", address.context] if address.context else [])]


@contextmanager
def running(
    volume: MountedClaim, patience: Patience, *, writes: bool = False, ready: str = READY_WAIT
) -> Iterator[list[str]]:
    """The beginning of a command that runs a program in the pod. The pod exists inside the block.

    Parameters:
        writes: whether it may change the volume; then the program also gets standard input.
        ready: how long to wait for the pod, in kubectl's format.
    """
    name = f"{NAME_PREFIX}{uuid.uuid4().hex[:8]}"
    command = [*kubectl(volume.address), "--namespace", volume.namespace]
    pod = json.dumps(manifest(name, volume, writes=writes))
    # `apply`, not `create`: the first call may have succeeded although its answer was lost.
    patience.ask(lambda: _kubectl(*command, "apply", "--filename", "-", stdin=pod))
    try:
        condition = ("--for=condition=Ready", f"--timeout={ready}")
        patience.ask(lambda: _kubectl(*command, "wait", f"pod/{name}", *condition))
        yield [*command, "exec", *(["--stdin"] if writes else []), name, "--"]
    finally:
        patience.ask(lambda: _kubectl(*command, "delete", "pod", name, "--wait=false", "--ignore-not-found"))


def _kubectl(*command: str, stdin: str | None = None) -> str:
    """Standard output of kubectl. Raises ConnectionError if the API server is away, else CommandError."""
    try:
        return output(*command, stdin=stdin)
    except CommandError as error:
        _raise_if_away(str(error))
        raise


def _raise_if_away(said: str) -> None:
    if any(phrase in said for phrase in AWAY):
        raise ConnectionError(said.strip().splitlines()[-1])


def read_first(inside: list[str], files: list[str], target: IO[bytes], patience: Patience) -> None:
    """Write the content of the first existing file of `files`, which are paths in the pod.

    Parameters:
        inside: what `running` returns.

    Raises ReadError, UnreachableError.
    """
    patience.ask(lambda: _in_pod(inside, FIRST_THERE, files, target))


def read_folder(inside: list[str], folder: str, target: IO[bytes], patience: Patience) -> None:
    """As `read_first`, for a tar archive of `folder`, a path in the pod. Writes nothing if there is no such folder."""
    patience.ask(lambda: _in_pod(inside, ARCHIVE, [folder], target))
    target.seek(0)


def put(inside: list[str], folder: str, run: str, model: str, archive: bytes, *, on_top: bool) -> None:
    """Write the files of a tar archive into the folder of `run`, and with `on_top` copy its model to the volume's top.

    Raises ReadError.

    Parameters:
        folder: the volume's folder in the pod.
        model: the run's model file; empty if it has none.
    """
    words = ["sh", "-ec", _PUT, "put", folder, run, model, "top" if on_top else ""]
    status, said = _exec([*inside, *words], subprocess.DEVNULL, archive)
    if status:
        raise ReadError(said or f"kubectl exec ended with {status}")


def _exec(command: list[str], target: IO[bytes] | int, stdin: bytes | None = None) -> tuple[int, str]:
    """Run kubectl with its output in `target`. Returns its exit status and its messages."""
    done = subprocess.run(command, input=stdin, stdout=target, stderr=subprocess.PIPE, env=environment())
    return done.returncode, done.stderr.decode(errors="replace").strip()


def _in_pod(inside: list[str], script: str, arguments: list[str], target: IO[bytes]) -> None:
    """Write the output of `script` in the pod. Raises ReadError, and ConnectionError if the API server is away."""
    target.seek(0)
    target.truncate()
    status, said = _exec([*inside, "sh", "-c", script, "read", *arguments], target)
    if status:
        if status != MISSING:
            _raise_if_away(said)
        raise ReadError(said)

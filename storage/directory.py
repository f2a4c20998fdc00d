"""Makes the volume's folder writable for a trainer that is not root: on a kind node directly, else by a short Job."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from pulumi import ResourceOptions
from pulumi.dynamic import CreateResult, DiffResult, Resource, ResourceProvider, UpdateResult

from storage.manifests import PREPARES, Claim, Manifest

Props = dict[str, Any]
MOUNT = "/volume"
# Annotation: the users of the volume. If they change, the Job is replaced: a new user must be able to write to old
# files.
USERS = "trainstack/users"
# A failed Job stays failed. The next update replaces it, because the cause may no longer exist.
REPLACE_UNREADY = {"pulumi.com/replaceUnready": "true"}
COMPARED = ("node", "instance", "path", "owner", "group", "mode", "users")
# `runs` has files of the group's earlier users; some umasks gave the group no rights. Everything else in the folder may
# belong to others, and stays unchanged. A running trainer may rename a file at the same time, so `again` tries twice.
_STEPS = """
again() { "$@" 2>/dev/null || "$@"; }
mkdir -p "$1"
chown "$2:$3" "$1"
chmod "$4" "$1"
if [ -d "$1/runs" ] && [ ! -L "$1/runs" ]; then
  again chgrp -R "$3" "$1/runs"
  again chmod -R g+rwX "$1/runs"
fi
"""


class DirectoryError(RuntimeError):
    """The folder could not be prepared."""


def script(path: str, owner: int, group: int, mode: str) -> list[str]:
    """A command that creates the folder, sets owner and mode, and lets the group read and write existing runs."""
    return ["sh", "-ec", _STEPS, "prepare", path, str(owner), str(group), mode]


def prepare(props: Props) -> Props:
    """Run `script` in the node's container. Raises DirectoryError.

    A file system without owners (exFAT, NTFS, a network share) refuses the script. That is no error if all `users` can
    write to the folder.
    """
    node, path, group = props["node"], props["path"], int(props["group"])
    done = _on_node(node, *script(path, int(props["owner"]), group, props["mode"]))
    if done.returncode and any(
        _on_node(node, "test", "-w", path, user=f"{int(user)}:{group}").returncode for user in props["users"]
    ):
        raise DirectoryError(f"cannot prepare {props['path']} on node {props['node']}: {done.stderr.strip()}")
    return {key: props[key] for key in COMPARED}


def _on_node(node: str, *command: str, user: str = "0:0") -> subprocess.CompletedProcess[str]:
    return subprocess.run(["docker", "exec", "--user", user, node, *command], capture_output=True, text=True)


class DirectoryProvider(ResourceProvider):
    """Properties: COMPARED. The folder is never deleted: it holds the models.

    `instance` is the cluster's uid. `users` are the jobs' user ids: a new user must be able to write to existing files.
    """

    serialize_as_secret_always = False

    def create(self, props: Props) -> CreateResult:
        return CreateResult(props["path"], prepare(props))

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        return DiffResult(changes=any(_olds.get(key) != _news.get(key) for key in COMPARED))

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        return UpdateResult(prepare(_news))


class NodeDirectory(Resource, module="trainstack", name="NodeDirectory"):
    """A folder on a kind node with owner, group and mode."""

    def __init__(self, name: str, props: Props, opts: ResourceOptions) -> None:
        super().__init__(DirectoryProvider(), name, props, opts)


def job(
    volume: Claim,
    image: str,
    owner: int,
    group: int,
    mode: str,
    users: Sequence[int],
    fields: Mapping[str, Any],
) -> Manifest:
    """A batch/v1 Job that runs `script` in `image`, which needs a shell, chown, chgrp and chmod.

    The kubelet creates a missing hostPath folder only for root, and root owns many provisioned volumes. In this Job,
    root has only the rights to change owners and modes, and to use files whatever their modes are.

    Parameters:
        users: ids of the users that write to the volume.
        fields: fields of its pod's spec, to reach the volume's node and to pull the image.
    """
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"{volume.claim}{PREPARES}",
            "namespace": volume.namespace,
            "annotations": dict(REPLACE_UNREADY),
        },
        "spec": {
            "backoffLimit": 3,
            "activeDeadlineSeconds": 600,
            "template": {
                "metadata": {
                    "labels": {"app.kubernetes.io/managed-by": "trainstack"},
                    "annotations": {USERS: " ".join(map(str, users))},
                },
                "spec": {
                    "restartPolicy": "OnFailure",
                    "automountServiceAccountToken": False,
                    **fields,
                    "containers": [_container(image, owner, group, mode)],
                    "volumes": [{"name": "models", "persistentVolumeClaim": {"claimName": volume.claim}}],
                },
            },
        },
    }


def _container(image: str, owner: int, group: int, mode: str) -> Manifest:
    return {
        "name": "prepare",
        "image": image,
        "command": script(MOUNT, owner, group, mode),
        "resources": {
            "limits": {"cpu": "100m", "memory": "64Mi"},
            "requests": {"cpu": "10m", "memory": "64Mi"},
        },
        "securityContext": {
            "runAsUser": 0,
            # Linux drops the setgid bit if the caller is not in the folder's group.
            "runAsGroup": group,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"], "add": ["CHOWN", "FOWNER", "DAC_OVERRIDE"]},
            "readOnlyRootFilesystem": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [{"name": "models", "mountPath": MOUNT}],
    }

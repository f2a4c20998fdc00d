"""The volume's folder where only Kubernetes reaches it: a short Job, run as root, sets owner and mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from storage.directory import script
from storage.manifests import PREPARES, Claim, Manifest

MOUNT = "/volume"
# Others than those of the last preparation have it made anew: they find what those have written.
USERS = "trainstack/users"
# A Job that has failed stays failed; the next update makes it anew, since what was in its way may be gone by then.
REPLACE_UNREADY = {"pulumi.com/replaceUnready": "true"}


def job(
    volume: Claim,
    image: str,
    owner: int,
    group: int,
    mode: str,
    users: Sequence[int],
    fields: Mapping[str, Any],
) -> Manifest:
    """A batch/v1 Job with `image`, which needs a shell, chown, chgrp and chmod.

    The kubelet makes a missing hostPath folder for root alone, and many provisioned volumes are root's. All that root
    may do here is change owner and mode.

    Parameters:
        users: ids of those who write on the volume.
        fields: of its pod's spec, that it needs to get to the volume's node and to pull the image.
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
            # Linux takes the setgid bit from a mode that is set by nobody of the folder's group.
            "runAsGroup": group,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"], "add": ["CHOWN", "FOWNER", "DAC_OVERRIDE"]},
            "readOnlyRootFilesystem": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [{"name": "models", "mountPath": MOUNT}],
    }

"""The pods that look at the folder: one writes a file there, the others wait for it."""

from __future__ import annotations

from infra.objects.manifest import Manifest
from infra.run import reader_pod
from infra.run.reader_pod import DEADLINE_S, MountedClaim

SEEN_S = 30
"""How long a reader looks for the file, in seconds: a network file system may show it to other nodes later."""
LEAVE_S = 10
"""How long the writer may take to remove its file, in seconds."""
# The file goes with the pod. A shell waits for a program in the foreground before it hears that it is to end.
_WRITE = """
trap 'rm -f "$1"' EXIT
trap 'kill $! || true; exit 0' TERM
echo "this file is here while trainstack looks whether all nodes see this folder" > "$1"
sleep "$2" & wait
"""
_READ = 'i=0; until [ -e "$1" ]; do i=$((i + 1)); [ "$i" -le "$2" ] || exit 1; sleep 1; done'


def writer(name: str, volume: MountedClaim, node: str, file: str) -> Manifest:
    """Writes `file` in the volume's folder, is ready when it is there, and removes it when it is deleted."""
    path = f"{volume.mount_path}/{file}"
    command = ["sh", "-ec", _WRITE, "write", path, str(DEADLINE_S)]
    pod = reader_pod.manifest(name, volume, command, node=node, writes=True)
    pod["spec"]["terminationGracePeriodSeconds"] = LEAVE_S
    (container,) = pod["spec"]["containers"]
    # What it could not do is told in its status.
    container["terminationMessagePolicy"] = "FallbackToLogsOnError"
    container["readinessProbe"] = {"exec": {"command": ["test", "-e", path]}, "periodSeconds": 1}
    return pod


def reader(name: str, volume: MountedClaim, node: str, file: str) -> Manifest:
    """Ends with 0 when it has seen `file`, and with 1 when it has not for SEEN_S seconds."""
    command = ["sh", "-ec", _READ, "read", f"{volume.mount_path}/{file}", str(SEEN_S)]
    return reader_pod.manifest(name, volume, command, node=node)

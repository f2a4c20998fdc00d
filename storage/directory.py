"""The volume's folder on a kind node, writable for a trainer that is not root."""

from __future__ import annotations

import subprocess
from typing import Any

from pulumi import ResourceOptions
from pulumi.dynamic import CreateResult, DiffResult, Resource, ResourceProvider, UpdateResult

Props = dict[str, Any]
COMPARED = ("node", "instance", "path", "owner", "group", "mode", "users")
# In `runs` is what earlier users of the group have written, some with a umask that keeps the group out. All else in the
# folder may be others': it stays as it is. A trainer at work renames its files meanwhile, hence the second try.
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
    """Makes the folder, sets owner and mode, and gives the group all rights to the runs that are in it."""
    return ["sh", "-ec", _STEPS, "prepare", path, str(owner), str(group), mode]


def prepare(props: Props) -> Props:
    """Run `script` in the node's container.

    A file system without owners (exFAT, NTFS, a share) refuses that, and will do where all users can write anyway.
    Raises DirectoryError.
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

    `instance` is the cluster's. `users` are those of the jobs: another one finds what those before it have written.
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

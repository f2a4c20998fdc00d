"""The volume's folder on a kind node, writable for a trainer that is not root."""

from __future__ import annotations

import subprocess
from typing import Any

from pulumi import ResourceOptions
from pulumi.dynamic import CreateResult, DiffResult, Resource, ResourceProvider, UpdateResult

Props = dict[str, Any]
COMPARED = ("node", "instance", "path", "owner", "group", "mode")


class DirectoryError(RuntimeError):
    """The folder could not be prepared."""


def script(path: str, owner: int, group: int, mode: str) -> list[str]:
    """Makes the folder and sets owner and mode; what is in it stays as it is."""
    steps = 'mkdir -p "$1" && chown "$2" "$1" && chmod "$3" "$1"'
    return ["sh", "-ec", steps, "prepare", path, f"{owner}:{group}", mode]


def prepare(props: Props) -> Props:
    """Run `script` in the node's container.

    A file system without owners (exFAT, NTFS, a share) refuses that, and will do where the owner can write anyway.
    Raises DirectoryError.
    """
    owner, group = int(props["owner"]), int(props["group"])
    done = _on_node(props["node"], *script(props["path"], owner, group, props["mode"]))
    if (
        done.returncode
        and _on_node(props["node"], "test", "-w", props["path"], user=f"{owner}:{group}").returncode
    ):
        raise DirectoryError(f"cannot prepare {props['path']} on node {props['node']}: {done.stderr.strip()}")
    return {key: props[key] for key in COMPARED}


def _on_node(node: str, *command: str, user: str = "0:0") -> subprocess.CompletedProcess[str]:
    return subprocess.run(["docker", "exec", "--user", user, node, *command], capture_output=True, text=True)


class DirectoryProvider(ResourceProvider):
    """Properties: COMPARED; `instance` is the cluster's. The folder is never deleted: it holds the models."""

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

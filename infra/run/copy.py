"""Brings a model from a volume that is not on this machine to models/<stack>/."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, ReadResult, Resource

from infra import paths
from infra.dynamic import Props, Provider, missing, plain_props, show
from infra.run.reader_pod import MountedClaim, ReadError, read_first
from infra.run.whole_file import replacing


class CopyError(RuntimeError):
    """The model is not where the run should have left it."""


def fetch(volume: MountedClaim, sources: list[str], target: Path, show: Callable[[str], None]) -> str:
    """Copy the first of `sources`, paths in a pod, to `target` in one step; the file's SHA-256.

    Raises CopyError, CommandError, UnreachableError.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with replacing(target) as file:
            read_first(volume, sources, file, show)
    except ReadError as error:
        raise CopyError(f"the run left no model on the volume: {error}") from None
    return hashlib.sha256(target.read_bytes()).hexdigest()


class CopyProvider(Provider):
    """Properties: `kubeconfigPath`, `context`, `namespace`, `image`, `claim`, `mountPath`, `model`,
    `run`, `uid`, `target`.

    What was copied is never deleted.
    """

    replaced_by = ("uid", "run", "target")

    def create(self, props: Props) -> CreateResult:
        # The run's own model; a hand-written trainer may know of the volume's folder only.
        sources = [f"{props['mountPath']}/{each}{props['model']}" for each in (f"runs/{props['run']}/", "")]
        digest = fetch(MountedClaim.from_props(props), sources, paths.resolved(props["target"]), show)
        return CreateResult(props["run"], plain_props(props) | {"sha256": digest})

    def read(self, id_: str, props: Props) -> ReadResult:
        return ReadResult(id_, plain_props(props)) if paths.resolved(props["target"]).exists() else missing()


class ModelCopy(Resource, module="trainstack", name="ModelCopy"):
    """The model on this machine. Outputs: `target`, `sha256`."""

    target: pulumi.Output[str]
    sha256: pulumi.Output[str]

    def __init__(self, name: str, props: dict[str, Any], opts: pulumi.ResourceOptions) -> None:
        super().__init__(CopyProvider(), name, {**props, "sha256": None}, opts)

"""Copies a run's folder and model from a remote volume to models/<stack>/, and the run's record to that volume."""

from __future__ import annotations

import hashlib
import io
import shutil
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

import pulumi
from pulumi.dynamic import CreateResult, ReadResult

from infra import paths
from infra.atomic_file import replacing
from infra.dynamic import ADDRESS, DynamicResource, Props, Provider, missing, plain_props, show
from infra.objects.retry import Patience
from infra.run.reader_pod import MountedClaim, ReadError, put, read_first, read_folder, running

SENT_WAIT = "60s"
"""How long the pod that writes a record may take to start, while `make up` waits for it."""


class CopyError(RuntimeError):
    """The run's model cannot be copied from the volume, or its record cannot be written there."""


def fetch(volume: MountedClaim, run: str, model: str, target: Path, show: Callable[[str], None]) -> str:
    """Copy the folder of `run`, then its model to `target`, each file in one step. Returns the model's SHA-256.

    If the run's folder has no model, the model at the top of the volume is copied: a user's own trainer may write only
    to the top. If the image has no tar, only the model is copied. Raises CopyError, CommandError, UnreachableError.

    Parameters:
        model: name of the file with the weights.
        target: the model on this machine, at the top of the stack's folder or in the run's folder.
    """
    folder = target.parent if target.parent.name == run else target.parent / "runs" / run
    target.parent.mkdir(parents=True, exist_ok=True)
    patience = Patience(show)
    try:
        with running(volume, patience) as inside:
            with tempfile.TemporaryFile(dir=target.parent) as archive:
                read_folder(inside, f"{volume.mount_path}/runs/{run}", archive, patience)
                came = unpack(archive, folder, last=model)
            if model not in came:
                sources = [f"{volume.mount_path}/{each}{model}" for each in (f"runs/{run}/", "")]
                with replacing(target) as file:
                    read_first(inside, sources, file, patience)
            elif folder / model != target:
                with (folder / model).open("rb") as own, replacing(target) as file:
                    shutil.copyfileobj(own, file)
    except ReadError as error:
        raise CopyError(f"the run's model cannot be copied from the volume: {error}") from None
    return hashlib.sha256(target.read_bytes()).hexdigest()


def send(volume: MountedClaim, run: str, model: str, files: Mapping[str, bytes], *, on_top: bool) -> None:
    """Write the record of `run` to its folder on the volume, and with `on_top` copy its model to the volume's top.

    Raises CopyError, CommandError, UnreachableError.

    Parameters:
        model: the run's model file; empty if it has none.
    """
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as packed:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(content), int(time.time()), 0o664
            packed.addfile(entry, io.BytesIO(content))
    try:
        with running(volume, Patience(lambda _: None, 0), writes=True, ready=SENT_WAIT) as inside:
            put(inside, volume.mount_path, run, model, archive.getvalue(), on_top=on_top)
    except ReadError as error:
        raise CopyError(str(error)) from None


def unpack(archive: IO[bytes], folder: Path, last: str) -> set[str]:
    """Extract the archive's files into `folder`, with their times. Returns their names.

    Folders and links are skipped: the names come from the volume, and must not lead to another place.

    Parameters:
        last: the file to write after all others: a run with its model counts as ended.
    """
    if not archive.read(1):
        return set()
    archive.seek(0)
    with tarfile.open(fileobj=archive) as packed:
        found = {
            Path(each.name).name: each for each in packed if each.isreg() and Path(each.name).parent == Path()
        }
        for name, each in sorted(found.items(), key=lambda pair: pair[0] == last):
            folder.mkdir(parents=True, exist_ok=True)
            content = packed.extractfile(each)
            assert content, "a regular file has content"
            with replacing(folder / name, each.mtime) as file:
                shutil.copyfileobj(content, file)
        return set(found)


class CopyProvider(Provider):
    """Properties: `kubeconfigPath`, `context`, `namespace`, `image`, `claim`, `mountPath`, `pod`, `user`,
    `model`, `run`, `uid`, `target`.

    The run's folder is copied, too. Copied files are never deleted.
    """

    replaced_by = ("uid", "run", "target")
    taken_over = ADDRESS

    def create(self, props: Props) -> CreateResult:
        volume, target = MountedClaim.from_props(props), paths.resolved(props["target"])
        digest = fetch(volume, props["run"], props["model"], target, show)
        return CreateResult(props["run"], plain_props(props) | {"sha256": digest})

    def read(self, id_: str, props: Props) -> ReadResult:
        return ReadResult(id_, plain_props(props)) if paths.resolved(props["target"]).exists() else missing()


class ModelCopy(DynamicResource, provider=CopyProvider):
    """The model on this machine. Outputs: `target`, `sha256`."""

    target: pulumi.Output[str]
    sha256: pulumi.Output[str]

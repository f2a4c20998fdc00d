"""Checkpoints: everything that a run needs to continue as if it had never stopped."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor, nn

from trainer import volume
from trainer.exchange import parts_of, put, put_numbers, raw

NAME, PREVIOUS = "checkpoint.pt", "checkpoint.previous.pt"
VERSION = 3  # of the layout; in versions 1 and 2, one tensor held all parameters, by position
DESCRIPTION = "trainstack.json"  # the record in a model file about the training's data


class CheckpointError(Exception):
    """The run cannot continue from its checkpoint; the message says why and what to do."""


@dataclass
class Progress:
    """How far a run is. Random numbers and learning rate follow from it, so a checkpoint keeps nothing else for them.

    `best_epoch` is 0 until an epoch has been measured; `best` is the accuracy of the epoch `best_epoch`.
    """

    epoch: int = 1  # the current epoch, from 1
    images: int = 0  # images of this epoch trained so far, over all ranks
    step: int = 0  # optimizer steps since the run began
    best_epoch: int = 0
    best: float = 0.0


class Sink:
    """A file for torch.save; `error` keeps why a write failed, which torch.save hides. Without a file: counts bytes."""

    def __init__(self, file: IO[bytes] | None = None) -> None:
        self.file, self.size = file, 0
        self.error: OSError | None = None

    def write(self, data: memoryview) -> int:
        """Take all of `data`. Raises OSError."""
        self.size += len(data)
        try:
            return self.file.write(data) if self.file else len(data)
        except OSError as error:
            self.error = error
            raise

    def flush(self) -> None:
        """Raises OSError."""
        if self.file:
            self.file.flush()


def write(file: IO[bytes], state: object, description: dict[str, Any] | None = None) -> None:
    """torch.save into an open file, tensor by tensor. Given a path, torch.save would also store the file's name.

    A description becomes one more record of the archive, which torch.load does not read. Raises OSError.
    """
    sink = Sink(file)
    try:
        torch.save(state, sink)
    except RuntimeError:
        if sink.error:
            raise sink.error from None
        raise
    if description is not None:
        with zipfile.ZipFile(file, "a") as archive:
            archive.writestr(zipfile.ZipInfo(f"archive/{DESCRIPTION}"), json.dumps(description))


def dump(state: object, description: dict[str, Any] | None = None) -> bytes:
    """The bytes that `write` writes."""
    buffer = io.BytesIO()
    write(buffer, state, description)
    return buffer.getvalue()


def size(state: object) -> int:
    """Bytes that `write` writes, without a description."""
    sink = Sink()
    torch.save(state, sink)
    return sink.size


def description(content: bytes) -> dict[str, Any]:
    """The description that `dump` wrote beside the state; empty if the file has none."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            (name,) = [name for name in archive.namelist() if name.endswith(f"/{DESCRIPTION}")]
            return dict(json.loads(archive.read(name)))
    except (ValueError, KeyError, zipfile.BadZipFile):
        return {}


def save(folder: Path, progress: Progress, state: dict[str, Any]) -> None:
    """Write the checkpoint and keep the earlier one.

    Parameters:
        state: `model`, parameters by name; `buffers`, by name; `numbers`, attributes by name; `optimizer`,
            nested; `first_examples`, what a user's network computes for them; `config` and `data`, which must be the
            same in a resumed run; `machine`, which must also be the same if the resumed run is to
            end with the same model file, bit for bit

    Uses no links, because some volumes have none. After a crash between the two renames, the earlier checkpoint counts.
    Raises volume.VolumeError.
    """
    content = {"version": VERSION, "progress": asdict(progress), **state}
    current = folder / NAME
    whole = {**content, "sha256": digest(content)}
    fresh = folder / f".{NAME}.new"
    volume.write(fresh, partial(write, state=whole))
    with volume.reported(current):
        with suppress(FileNotFoundError):
            current.replace(folder / PREVIOUS)
        fresh.replace(current)
        volume.sync(folder)


class Writer:
    """Writes checkpoints during the training, one at a time. It keeps one copy of the state in memory."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._writing: Future[None] | None = None
        self._copy: dict[str, Any] = {}

    @property
    def busy(self) -> bool:
        """Whether the last checkpoint is still being written."""
        return self._writing is not None and not self._writing.done()

    @property
    def failed(self) -> bool:
        """Whether the last write failed; `wait` raises its error."""
        return self._writing is not None and self._writing.done() and self._writing.exception() is not None

    def save(self, folder: Path, progress: Progress, state: dict[str, Any]) -> None:
        """Begin to write the checkpoint. Later changes of the tensors are not in it.

        Returns when the earlier checkpoint is written and the tensors are copied. Raises like `wait`.
        """
        self.wait()
        self._copy = copied(state, self._copy)
        self._writing = self._thread.submit(save, folder, progress, self._copy)

    def wait(self) -> None:
        """Return when the last checkpoint is on disk. Raises volume.VolumeError, once, if it could not be written."""
        writing, self._writing = self._writing, None
        if writing:
            writing.result()


def copied(state: Any, into: Any = None) -> Any:
    """`state` with its tensors copied to CPU memory, into the tensors of an earlier copy if they fit."""
    if isinstance(state, Tensor):
        fits = isinstance(into, Tensor) and (into.shape, into.dtype) == (state.shape, state.dtype)
        if fits and into.layout is state.layout is torch.strided:
            return into.copy_(state.detach())
        return contiguous(state.detach()).to("cpu", copy=True)
    if isinstance(state, dict):
        known = into if isinstance(into, dict) else {}
        return {key: copied(value, known.get(key)) for key, value in state.items()}
    if isinstance(state, list | tuple):
        before = into if isinstance(into, list | tuple) else ()
        return [copied(value, old) for value, old in zip_longest(state, before[: len(state)])]
    return state


def contiguous(tensor: Tensor) -> Tensor:
    """The tensor with separate memory for each number, also if numbers shared memory; a sparse tensor unchanged."""
    return tensor.contiguous() if tensor.layout is torch.strided else tensor


def digest(state: object) -> str:
    """SHA-256 over names, numbers and tensor bytes: torch.load does not notice a flipped bit."""
    found = hashlib.sha256()

    def walk(value: object) -> None:
        if isinstance(value, Tensor):
            for part in parts_of(value):
                found.update(raw(part))
        elif isinstance(value, dict):
            for key in sorted(value, key=str):
                found.update(
                    f"{key}:".encode(errors="surrogatepass")
                )  # a layer's name may come from a file's name
                walk(value[key])
        elif isinstance(value, list | tuple):
            for one in value:
                walk(one)
        else:
            found.update(f"{value!r};".encode())

    walk(state)
    return found.hexdigest()


def load(folder: Path, config: dict[str, Any], data: dict[str, str]) -> dict[str, Any] | None:
    """State of the newest whole checkpoint, None without any; a damaged one is renamed, with a warning.

    Raises CheckpointError if the checkpoint belongs to a run with another configuration or other data, or was
    written in another layout; volume.VolumeError if it cannot be read: an unreadable file is not a damaged one.

    Parameters:
        data: fingerprints of the parts to train and to test on.
    """
    for name in (NAME, PREVIOUS):
        path = folder / name
        try:
            with volume.reported(path):
                state = _whole(path.read_bytes())
        except volume.VolumeError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                continue
            raise
        if state is None:
            aside = path.with_name(f"{path.name}.damaged")
            with volume.reported(path):
                path.replace(aside)
            print(f"warning: {path} is damaged; set aside as {aside.name}", flush=True)
            continue
        if (written := state.setdefault("version", 1)) != VERSION:
            which = "a newer" if written > VERSION else "an older"
            raise CheckpointError(
                f"{path} was written by {which} trainer (layout {written}, this one reads {VERSION}); "
                "continue with that trainer's image, or give the run another name (--run or TRAINER_RUN); "
                "models of finished runs can be read as before"
            )
        _same(path, "configuration", state["config"], config)
        _same(path, "data", state["data"], data)
        return state
    return None


def _whole(raw: bytes) -> dict[str, Any] | None:
    try:
        state = torch.load(io.BytesIO(raw), map_location="cpu", weights_only=True)
        expected = state.pop("sha256")
        return state if digest(state) == expected else None
    except MemoryError:
        raise
    except Exception:  # torch.load raises half a dozen types for a damaged archive
        return None


def _same(path: Path, what: str, theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    if (
        "epochs" not in ours
    ):  # if the schedule does not depend on the number of epochs, more epochs may follow
        theirs = {key: value for key, value in theirs.items() if key != "epochs"}
    differing = [key for key in sorted({*theirs, *ours}) if theirs.get(key) != ours.get(key)]
    if differing:
        keys = "; ".join(f"{key}: checkpoint {theirs.get(key)}, now {ours.get(key)}" for key in differing)
        mend = (
            "use the checkpoint's options again"
            if what == "configuration"
            else "give the run the same data, in the same order"
        )
        raise CheckpointError(
            f"{path} belongs to a run with another {what} ({keys}); "
            f"{mend}, or give the run another name (--run or TRAINER_RUN)"
        )


def restore(network: nn.Module, state: dict[str, Any]) -> None:
    """Copy a checkpoint's values into the network, by name. Raises CheckpointError, naming what differs."""
    theirs = {**state["model"], **state["buffers"]}
    parameters = dict(network.named_parameters())
    ours = {**parameters, **dict(network.named_buffers())}

    def kind(value: Tensor | None) -> str:
        return "none" if value is None else f"{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"

    differing = [
        f"{name}: checkpoint {kind(theirs.get(name))}, now {kind(value)}"
        for name, value in ours.items()
        if name not in theirs or (name in parameters and kind(theirs[name]) != kind(value))
    ]
    differing += [
        f"{name}: checkpoint {kind(theirs[name])}, now none" for name in state["model"] if name not in ours
    ]
    if differing:
        raise CheckpointError(
            f"the checkpoint belongs to another network ({'; '.join(differing)}); use that network again, or give "
            "the run another name (--run or TRAINER_RUN)"
        )
    with torch.no_grad():
        for name, value in state["model"].items():
            parameters[name].copy_(value)
    for name, value in state["buffers"].items():
        put(network, name, value)
    put_numbers(network, state["numbers"])

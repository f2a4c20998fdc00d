"""Checkpoints: all that a run needs to go on as if it had never stopped."""

from __future__ import annotations

import hashlib
import io
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trainer import volume

NAME, PREVIOUS = "checkpoint.pt", "checkpoint.previous.pt"


class CheckpointError(Exception):
    """The run cannot go on from its checkpoint; the message says why and what to do."""


@dataclass
class Progress:
    """Where a run stands. Randomness and learning rate follow from it, so nothing else has to be kept."""

    epoch: int = 1  # the one under way, from 1
    images: int = 0  # of its images, how many have been trained on, over all ranks
    step: int = 0  # optimizer steps since the run began


def dump(state: object) -> bytes:
    """torch.save into memory: into a file it would store the file's name too, and equal states would differ."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def save(
    folder: Path, progress: Progress, model: Tensor, optimizer: dict[str, Any], config: dict[str, Any]
) -> None:
    """Write the checkpoint and keep the one before it."""
    state = {"progress": asdict(progress), "model": model, "optimizer": optimizer, "config": config}
    current = folder / NAME
    if current.exists():
        kept = volume.part(folder / PREVIOUS)
        kept.unlink(missing_ok=True)
        kept.hardlink_to(current)
        kept.replace(folder / PREVIOUS)
    volume.write(current, dump({**state, "sha256": digest(state)}))


def digest(state: object) -> str:
    """SHA-256 over names, numbers and tensor bytes: torch's archive does not notice a flipped bit by itself."""
    found = hashlib.sha256()

    def walk(value: object) -> None:
        if isinstance(value, Tensor):
            found.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
        elif isinstance(value, dict):
            for key in sorted(value, key=str):
                found.update(f"{key}:".encode())
                walk(value[key])
        elif isinstance(value, list | tuple):
            for one in value:
                walk(one)
        else:
            found.update(f"{value!r};".encode())

    walk(state)
    return found.hexdigest()


def load(folder: Path, config: dict[str, Any]) -> dict[str, Any] | None:
    """State of the newest whole checkpoint, None without any; a damaged one is set aside and named.

    Raises CheckpointError when the checkpoint belongs to a run with another configuration.
    """
    for name in (NAME, PREVIOUS):
        path = folder / name
        if not path.exists():
            continue
        state = _read(path)
        if state is None:
            aside = path.with_name(f"{path.name}.damaged")
            path.replace(aside)
            print(f"warning: {path} is damaged; set aside as {aside.name}", flush=True)
            continue
        _same(path, state["config"], config)
        return state
    return None


def _read(path: Path) -> dict[str, Any] | None:
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        expected = state.pop("sha256")
        return state if digest(state) == expected else None
    except Exception:  # whatever a damaged archive makes of torch.load: it raises half a dozen types
        return None


def _same(path: Path, theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    differing = [key for key in sorted({*theirs, *ours}) if theirs.get(key) != ours.get(key)]
    if differing:
        keys = "; ".join(f"{key}: checkpoint {theirs.get(key)}, now {ours.get(key)}" for key in differing)
        raise CheckpointError(
            f"{path} is of a run with another configuration ({keys}); "
            "use those options again, or give the run another name (--run or TRAINER_RUN)"
        )

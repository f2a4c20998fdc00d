"""Free space of the models' volume, if it is a folder on this machine."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from toolchain.machine.preflight import GIB
from toolchain.operating import environment
from toolchain.runs import records
from toolchain.steps import SetupError

ALERT = "TrainstackVolumeNearlyFull"
NEARLY_FULL = 0.1
"""If less than this part of the file system is free, the volume is nearly full, here and in the alert rule ALERT."""


@dataclass(frozen=True)
class Space:
    """The file system that holds the volume.

    Parameters:
        size, free: in bytes; `free` is the space for users other than root.
    """

    folder: Path
    size: int
    free: int

    @property
    def is_nearly_full(self) -> bool:
        """Whether the next models may not fit."""
        return self.free < NEARLY_FULL * self.size

    def __str__(self) -> str:
        return f"{self.free / GIB:.1f} of {self.size / GIB:.1f} GiB are free on the disk of {self.folder}"


def of(stack: str) -> Space | None:
    """The space of the volume of `stack`; None if the volume is not on this machine, or not created yet."""
    folder = records.models_folder() / stack
    try:
        told = environment.cluster_access(stack)
    except SetupError:
        return None
    if not (told and told.models_are_here and folder.is_dir()):
        return None
    usage = shutil.disk_usage(folder)
    return Space(folder, usage.total, usage.free)

"""An exFAT file system on this machine: it has neither hard links nor owners nor modes. Its driver is a process."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from toolchain.machine import packages

DRIVER, TOOLS, LIBRARY = "exfat-fuse", "exfatprogs", "libfuse2"


@contextmanager
def mounted(image: Path, place: Path, size_mib: int) -> Iterator[None]:
    """An empty one at `place`, which everybody may write to; its bytes are the file `image`, made here.

    Debian's packages are unpacked beside `image`, not installed.
    """
    programs = {name: image.with_name(name) for name in (DRIVER, TOOLS, LIBRARY)}
    for name, folder in programs.items():
        packages.unpack(name, folder)
    with image.open("wb") as file:
        file.truncate(size_mib << 20)
    subprocess.run([_only(programs[TOOLS], "mkfs.exfat"), image], check=True, stdout=subprocess.DEVNULL)
    attach = ["losetup", "--find", "--show", str(image)]
    device = subprocess.run(attach, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    try:
        libraries = str(_only(programs[LIBRARY], "libfuse.so.2").parent)
        driver = str(_only(programs[DRIVER], "mount.exfat-fuse"))
        mount = [driver, "-o", "allow_other,umask=0", device, str(place)]
        subprocess.run(mount, check=True, env={**os.environ, "LD_LIBRARY_PATH": libraries})
    finally:
        # While it is mounted this only tells the kernel to detach the device with the last user.
        subprocess.run(["losetup", "--detach", device], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def _only(folder: Path, name: str) -> Path:
    (found,) = folder.rglob(name)
    return found
